# SPDX-License-Identifier: Apache-2.0
"""The same scenario on our simulator, with the counters for the comparison."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from experiments.checks.ns3.ns3 import PS_PER_S, PS_PER_US, Outcome, Watch
from sluice.policy.network.graph import Topology
from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario
from sluice.simulator.taps import OUTCOMES, Taps

if TYPE_CHECKING:
    from sluice.simulator import _fabric

SLICE_EVENTS = 1_000_000
PACKETS, MARKED, BACKLOG = 0, 2, 5
"""Columns of port_statistics()."""


def run_on_ours(
    scenario: Scenario, topology: Topology, flows: FlowBatch, until_s: float, watch: Watch | None
) -> Outcome:
    """Run all flows, without a control loop, until every flow has ended or the time is over.

    The function imports the simulator, because `sluice.simulator.build` may compile it first.
    """
    from sluice.simulator.flows import fabric_columns
    from sluice.simulator.run import Simulation

    simulation = Simulation(scenario, topology, Taps(flows=lambda columns: None))
    fabric = simulation.fabric
    fabric.add_flows(**fabric_columns(flows))
    began = time.thread_time()
    ids = [port.id for port in topology.ports]
    watched = len(topology.hosts) + ids.index(watch.port) if watch else 0
    backlog, done = _run(
        fabric, round(until_s * PS_PER_S), watch.every_ps if watch else None, watched, len(flows)
    )
    seconds = time.thread_time() - began
    ports = fabric.port_statistics()
    columns = _by_number(done, fabric.unfinished(), len(flows))
    return Outcome(
        fct_us=np.where(
            columns["outcome"] == OUTCOMES.index("finished"), columns["fct_ps"] / PS_PER_US, np.nan
        ),
        received_bytes=columns["delivered_bytes"],
        retransmissions=columns["retransmissions"],
        timeouts=columns["timeouts"],
        packet_hops=fabric.hops,
        seconds=seconds,
        dropped=fabric.packets_dropped,
        marked=int(ports[:, MARKED].sum()),
        backlog_bytes=np.asarray(backlog, np.int64),
        port_packets=ports[len(topology.hosts) :, PACKETS].astype(np.int64),
    )


def _run(
    fabric: _fabric.Fabric, until_ps: int, every_ps: int | None, watched: int, flows: int
) -> tuple[list[int], list[dict[str, np.ndarray]]]:
    """Return the watched port's backlog at each interval, and the results."""
    backlog: list[int] = []
    results: list[dict[str, np.ndarray]] = []
    ended = 0
    pause_ps = every_ps or until_ps
    while ended < flows:
        reached = fabric.run(pause_ps, SLICE_EVENTS)
        results.append(fabric.take_results())
        ended += len(results[-1]["id"])
        if reached and pause_ps >= until_ps:
            break
        if reached and every_ps:
            backlog.append(int(fabric.port_statistics()[watched, BACKLOG]))
            pause_ps += every_ps
    return backlog, results


def _by_number(
    done: list[dict[str, np.ndarray]], unfinished: dict[str, np.ndarray], flows: int
) -> dict[str, np.ndarray]:
    parts = [*done, unfinished]
    numbers = np.concatenate([part["id"] for part in parts]).astype(np.int64)
    columns = {}
    for name in parts[0]:
        columns[name] = np.zeros(flows, np.int64)
        columns[name][numbers] = np.concatenate([part[name] for part in parts])
    missing = np.setdiff1d(np.arange(flows), numbers)
    columns["outcome"][missing] = OUTCOMES.index("unfinished")
    return columns
