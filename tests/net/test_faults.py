# SPDX-License-Identifier: Apache-2.0
"""kill -9 of every process in turn under traffic.

Traffic continues or resumes, the state is soon right again, and every scheduled flow has exactly one record.
"""

import collections
import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from sluice.controller.tables import Table
from sluice.policy.wire.records import FINISHED, ScheduledFlow
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.wait import wait_until
from sluice.store.flows import all_flows, count_flows
from tests.net.scenarios import scenario

FLOWS = 450
Running = tuple[Stack, list[ScheduledFlow], float]
VICTIMS = ("web", "controller", "agent-h3", "ovs-vswitchd")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A stack under traffic for about 20 s, its schedule, and its start time."""
    mix = [
        {"bytes": "10KB", "share": 0.9, "from": ["h3"]},
        {"bytes": "100KB", "share": 0.1, "from": ["h2", "h4"]},
    ]
    workload = {"mix": mix, "pattern": "many-to-one", "to": "h1", "load": 0.08, "flows": FLOWS}
    adaptive = {
        "name": "mlfq-adaptive",
        "queues": 2,
        "thresholds": ["100KB"],
        "window_ms": 2000,
        "mark_at": "20pkt",
    }
    checked, _, topology = scenario_with(scenario("faults", workload=workload, scheme=adaptive))
    flows = scheduled_flows(checked, topology, np.random.default_rng(1), "faults")
    with Stack.start(checked, topology, tmp_path_factory.mktemp("faults")) as stack:
        start_at = stack.start_agents(flows)
        wait_until(stack.is_well, "all services are up")
        yield stack, flows, start_at


def kill(stack: Stack, victim: str) -> None:
    if victim == "ovs-vswitchd":
        stack.testbed.crash(victim)
        stack.testbed.wait_restarted(victim, 1)
        return
    service = stack.services[victim]
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    stack.check()


def rules(stack: Stack) -> list[str]:
    """Return the switch's rules without counters and without the map table, whose queues follow the thresholds."""
    dump = stack.testbed.ovs(["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", "s1"])
    return sorted(line.strip() for line in dump.splitlines() if f"table={Table.MAP:d}" not in line)


@pytest.mark.parametrize("victim", VICTIMS)
def test_kill__the_state_is_right_again_and_flows_continue(running: Running, victim: str) -> None:
    stack, flows, _ = running
    before = rules(stack)
    assert len(before) > 100
    kill(stack, victim)
    wait_until(stack.is_well, f"all services are well after the death of {victim}")
    wait_until(lambda: rules(stack) == before, "the rules are right")
    wait_until(lambda: ports_programmed(stack), "every port has its program")
    recorded = count_flows(stack.engine)

    def more_recorded() -> bool:
        stack.check()
        return min(recorded + 1, len(flows)) <= count_flows(stack.engine)

    wait_until(more_recorded, "flows finish again")


def ports_programmed(stack: Stack) -> bool:
    """Return whether every port has the port program, which puts packets into the HTB class of their queue."""
    ports = [port.interface for port in stack.topology.ports]
    filters = [stack.testbed.exec(None, ["tc", "filter", "show", "dev", name, "egress"]) for name in ports]
    return all("sluice_port" in text for text in filters)


def test_afterwards__every_flow_has_exactly_one_record(running: Running) -> None:
    stack, flows, _ = running

    def all_recorded() -> bool:
        stack.check()
        return count_flows(stack.engine) >= len(flows)

    wait_until(all_recorded, "every flow is recorded", timeout_s=300, interval_s=0.2)
    stack.stop_agents()
    records = all_flows(stack.engine)
    assert collections.Counter(r.id for r in records) == collections.Counter(f.id for f in flows)
    unfinished = [record for record in records if record.status != FINISHED]
    # h3 sends 90 % of the flows. Only flows that were active or due while its agent was dead may be unfinished.
    assert {record.src for record in unfinished} <= {"h3"}
