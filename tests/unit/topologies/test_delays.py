# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import topologies
from topologies.delays import HOP_NS, delay_warnings


def test_no_warning_for_delays_within_a_hops_own() -> None:
    assert delay_warnings(topologies.build("leaf-spine", link_delay_ns=200, host_delay_ns=20_000)) == []


def test_a_longer_delay_gives_a_warning_with_the_longest() -> None:
    (warning,) = delay_warnings(topologies.build("single", link_delay_ns=5_000_000, host_delay_ns=HOP_NS))
    assert "5050 us" in warning
