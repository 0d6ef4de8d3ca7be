# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.wire.agents import ForeignDscp, new_uses


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (ForeignDscp(46, 9, 0, 17, 5060, 0), "DSCP 46 (EF) from UDP port 5060"),
        (
            ForeignDscp(10, 9, 2, 6, 40_000, 443),
            "DSCP 10 (AF11) from TCP port 40000 to port 443, also without a local socket",
        ),
        (ForeignDscp(38, 1, 0, 6, 1, 2), "DSCP 38 (AF43) from TCP port 1 to port 2"),
        (ForeignDscp(48, 0, 7, 0, 0, 0), "DSCP 48 (CS6) in packets without a local socket"),
        (ForeignDscp(3, 7, 0, 1, 0, 0), "DSCP 3 from IP protocol 1"),
    ],
)
def test_str(use: ForeignDscp, text: str) -> None:
    assert str(use) == text


def test_new_uses__are_those_whose_dscp_is_new() -> None:
    before = [ForeignDscp(46, 1, 0, 17, 5060, 0)]
    now = [ForeignDscp(46, 9, 0, 17, 5061, 0), ForeignDscp(8, 1, 0, 6, 1, 2)]
    assert new_uses(before, now) == [now[1]]
    assert new_uses([], now) == now
