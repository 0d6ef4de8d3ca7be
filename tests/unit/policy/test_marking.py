# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import read
from sluice.policy.schemes.ports import (
    DEFAULT_BUFFER_BYTES,
    MAX_BACKLOG_BYTES,
    MIN_BUFFER_BYTES,
    PHANTOM_PERCENT,
    REFERENCE_MARK_BYTES,
    PortMarking,
    last_mark_bytes,
)
from sluice.policy.units import PACKET_BYTES


def test_defaults__are_the_papers() -> None:
    """65 packets of 1500 bytes (DCTCP), 360 KB (2LPS), 95 % (HULL), and the last of eight queues."""
    assert REFERENCE_MARK_BYTES == 97_500
    assert PortMarking().buffer_bytes == DEFAULT_BUFFER_BYTES == 360_000
    assert PHANTOM_PERCENT == 95
    assert PortMarking().last_queue == 7
    assert PortMarking().last_mark_factor == 1


def test_last_queue__is_one_of_eight() -> None:
    assert [read(PortMarking, {"last_queue": queue}).last_queue for queue in (0, 7)] == [0, 7]
    with pytest.raises(FieldError, match="from 0 to 7"):
        read(PortMarking, {"last_queue": 8})


def test_least_buffer__has_room_for_two_packets() -> None:
    assert MIN_BUFFER_BYTES == 2 * PACKET_BYTES


@pytest.mark.parametrize(
    ("mark_bytes", "factor", "expected"),
    [
        (30_000, 1, 0),
        (None, 5, 0),
        (30_000, 2, 60_000),
        (30_000, 100, 3_000_000),
        (MAX_BACKLOG_BYTES, 2, MAX_BACKLOG_BYTES),
    ],
)
def test_last_mark__is_0_if_it_is_that_of_the_other_queues(
    mark_bytes: int | None, factor: int, expected: int
) -> None:
    assert last_mark_bytes(mark_bytes, factor) == expected
