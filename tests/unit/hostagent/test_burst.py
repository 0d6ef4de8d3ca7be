# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.hostagent.link import LARGEST_BYTES, burst_of, tag_burst_bytes


@pytest.mark.parametrize(
    ("mtu", "size", "segments", "burst"),
    [
        (1500, 65_536, 65_535, 65_536),
        (1500, 16_384, 65_535, 16_384),
        (1500, 65_536, 1, 1460),  # a host of the testbed
        (9000, 65_536, 1, 8960),
        (1500, 65_536, 4, 5840),
        (1500, 0, 0, 65_536),
        (9000, 4_000, 65_535, 8960),
        (1500, 524_280, 65_535, 524_280),  # BIG TCP
    ],
)
def test_burst_of(mtu: int, size: int, segments: int, burst: int) -> None:
    assert burst_of(mtu, size, segments) == burst


def test_tag_burst_bytes__an_interface_that_cannot_be_read_may_send_the_most() -> None:
    assert tag_burst_bytes("no-such-if") == LARGEST_BYTES
    assert 1_000 <= tag_burst_bytes("lo") <= 10**6
