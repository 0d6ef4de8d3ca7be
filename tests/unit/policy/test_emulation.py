# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from policy.emulation import port_burst_bytes


def test_port_burst__two_frames_at_least_and_what_the_timer_may_be_late() -> None:
    assert port_burst_bytes(1_000_000) == 3_100
    assert port_burst_bytes(50_000_000) == 12_500
    assert port_burst_bytes(100_000_000_000) < 65_536, "an MTU"
