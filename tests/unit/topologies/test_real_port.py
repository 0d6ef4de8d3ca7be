# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.dataplane.flow_queues import QUEUES, SUB_QUEUES, turns
from sluice.policy.network.graph import Port
from sluice.topologies.real_port import CREDIT_NS, SMALLEST_BYTES, classes, mtu, own_burst_bytes

GBIT = 10**9


@pytest.mark.parametrize("rate_bps", [10 * GBIT, 25 * GBIT, 100 * GBIT])
def test_own_burst_bytes__lasts_for_a_late_timer(rate_bps: int) -> None:
    assert own_burst_bytes(rate_bps) * 8 * 10**9 // rate_bps == CREDIT_NS


def test_own_burst_bytes__a_slow_port_has_room_for_two_long_frames() -> None:
    assert own_burst_bytes(10**8) == SMALLEST_BYTES


def port(gbit: int) -> Port:
    return Port("rack", 1, "web1", 0, gbit * GBIT, edge=True, name="nic1")


def test_classes__the_root_has_the_rate_in_bits_and_the_credit() -> None:
    assert classes(port(25), None) == (
        "class change dev nic1 parent 1: classid 1:fffe htb rate 25000000000bit ceil 25000000000bit"
        " burst 312500b cburst 312500b\n"
    )


def test_classes__of_a_fast_port_all_have_the_rate_that_open_vswitch_cannot_set() -> None:
    root, first, *others = classes(port(100), (0.5,)).splitlines()
    assert "classid 1:fffe htb rate 100000000000bit " in root
    assert " classid 1:1 htb prio 0 rate 50000000000bit ceil 100000000000bit burst 1250000b " in first
    assert [line.split("prio ")[1].split()[0] for line in others] == list("1234567")
    assert all("rate 12000bit ceil 100000000000bit burst 375000b cburst 1250000b" in line for line in others)


def test_turns__of_every_flow_queue() -> None:
    lines = turns("nic1", 9_018).splitlines()
    assert len(lines) == QUEUES * SUB_QUEUES
    assert lines[0].startswith("class change dev nic1 parent 10: classid 10:1 htb ")
    assert all(line.endswith("quantum 9018") for line in lines)


def test_mtu__of_an_interface() -> None:
    assert mtu("lo") >= 1500
    with pytest.raises(OSError, match="No such device"):
        mtu("no-such-if")
