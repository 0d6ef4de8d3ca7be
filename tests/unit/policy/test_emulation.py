# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.policy.schemes.ports import least_class_rate_bps, port_burst_bytes


def test_port_burst__two_frames_at_least_and_what_the_timer_may_be_late() -> None:
    assert port_burst_bytes(1_000_000) == 3_100
    assert port_burst_bytes(50_000_000) == 12_500
    assert port_burst_bytes(100_000_000_000) < 65_536, "an MTU"


def test_least_class_rate__a_class_has_the_ports_credit_every_second() -> None:
    assert least_class_rate_bps(50_000_000) == 100_000, "as tc shows for a port of Open vSwitch"
