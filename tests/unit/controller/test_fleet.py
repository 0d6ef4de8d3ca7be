# SPDX-License-Identifier: Apache-2.0
"""Several controllers share the switches: real processes on one store, and switches that keep rules and roles."""

from __future__ import annotations

import os
import signal

import pytest

from sluice.runtime.wait import wait_until
from sluice.store import desired, networks
from tests.unit.controller.fleet import DPIDS, TOPOLOGY, Fleet, fleet, store_url

__all__ = ["fleet", "store_url"]

pytestmark = [pytest.mark.slow, pytest.mark.timing]  # several controllers and real leases

JOIN_S, TAKE_OVER_S = 5.0, 3.0


@pytest.fixture
def pair(fleet: Fleet) -> Fleet:
    """Two controllers that have brought all switches to the first policy."""
    fleet.start()
    fleet.start()
    fleet.wait_shared(*fleet.controllers)
    wait_until(fleet.first.applied, "the policy is applied")
    fleet.wait_rows(1)
    return fleet


def test_a_third_takes_its_part_of_two_and_no_rule_is_written(pair: Fleet) -> None:
    assert [len(pair.holds(process)) for process in pair.controllers] == [3, 3]
    before, written = pair.generations(DPIDS), pair.written()
    assert written > 1000
    third = pair.start()
    pair.wait_shared(*pair.controllers, timeout_s=JOIN_S)
    pair.wait_rows(1)
    kept = DPIDS - pair.holds(third)
    assert pair.generations(kept) == {dpid: before[dpid] for dpid in kept}
    assert pair.written() == written
    assert [switch.of_slaves for switch in pair.switches.values()] == [0] * len(DPIDS)
    pair.apply({"scheme": "tcp"})
    assert pair.written() > written
    pair.check()


@pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)], indirect=True
)
def test_kill_9__the_other_takes_only_the_part_of_the_dead_one_and_no_rule_is_written(pair: Fleet) -> None:
    survivor, dead = pair.controllers[0], pair.controllers[1]
    kept, written = pair.holds(survivor), pair.written()
    before = pair.generations(DPIDS)
    dead.process.kill()
    dead.process.wait()
    pair.wait_shared(survivor, timeout_s=TAKE_OVER_S)
    after = pair.generations(DPIDS)
    assert {dpid for dpid in DPIDS if after[dpid] == before[dpid]} == kept
    pair.wait_rows(1)
    assert pair.written() == written
    pair.apply({"scheme": "tcp"})
    pair.check()


def test_sigstop_and_sigcont__the_resumed_one_writes_nothing_until_it_gets_a_new_part(pair: Fleet) -> None:
    first, stopped = pair.controllers
    before, lost = pair.generations(DPIDS), pair.holds(stopped)
    pair.pause(stopped)
    pair.first.put_policy({"scheme": "tcp"})
    wait_until(lambda: pair.holds(first) == DPIDS, "the other one leads all", timeout_s=TAKE_OVER_S)
    wait_until(pair.first.applied, "the policy stands everywhere")
    taken, written = pair.generations(lost), pair.written()
    assert all(taken[dpid] > before[dpid] for dpid in lost)
    os.kill(stopped.process.pid, signal.SIGCONT)
    pair.wait_shared(first, stopped)
    pair.wait_rows(2)
    assert pair.written() == written
    pair.apply({"scheme": "pias"})
    pair.check()


def test_a_controller_that_stops_in_order_leaves_its_part_at_once(pair: Fleet) -> None:
    survivor, other = pair.controllers
    written = pair.written()
    os.kill(other.process.pid, signal.SIGTERM)
    assert other.process.wait(60) == 0
    pair.wait_shared(survivor, timeout_s=TAKE_OVER_S)
    pair.wait_rows(1)
    assert pair.written() == written
    pair.check()


def test_a_policy_that_does_not_stand_everywhere_is_reported_with_the_switches(fleet: Fleet) -> None:
    """One switch knows only the controller that dies, and learns of the other one later."""
    first = fleet.start(DPIDS - {6})
    second = fleet.start()
    wait_until(lambda: 6 in fleet.holds(second), "the second leads the switch that only it can reach")
    wait_until(first.applied, "the policy is applied")
    second.process.kill()
    second.process.wait()
    version = first.put_policy({"scheme": "tcp"})
    wait_until(lambda: fleet.late(version), "the policy is late")
    assert fleet.late(version) == [["s6"]]
    assert not first.applied()
    fleet.connect(first, {6})
    wait_until(first.applied, "the policy stands everywhere")
    fleet.wait_rows(version)
    assert fleet.late(version) == [["s6"]]


def test_a_network_that_nobody_has_described_has_one_controller_until_another_program_stores_one(
    fleet: Fleet,
) -> None:
    fleet.is_empty = True
    first, second = fleet.start(), fleet.start()
    wait_until(first.applied, "the switches that one controller has found have the first policy")
    assert fleet.parts == {}
    assert first.events().count("leading") == 1
    desired.put_topology(first.engine, TOPOLOGY)
    fleet.wait_shared(first, second)
    fleet.apply({"scheme": "tcp"})
    networks.put_network(first.engine, {"switch": [{"name": "s1", "dpid": 1}]}, "test")
    wait_until(lambda: not fleet.holds(first) | fleet.holds(second), "nobody shares any more")
    wait_until(lambda: fleet.leads_alone(first) or fleet.leads_alone(second), "one leads")
    fleet.check()
