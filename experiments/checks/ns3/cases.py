# SPDX-License-Identifier: Apache-2.0
"""What both simulators run (links of 10 Gb/s; marks and buffers as in PIAS's evaluation), and our run of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.checks.ns3.ns3 import PS_PER_S, PS_PER_US, Outcome, Watch
from sluice.policy.network.graph import Topology
from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario, scheduled_batches
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.simulator.taps import OUTCOMES, Taps

LINK_BPS = 10**10
END_S = 1000.0
LONG_S = 0.1
LONG_SETTLED_S = 0.02
WATCH_EVERY_PS = 20 * 10**6
LONE_SIZES = ("1KB", "10KB", "100KB", "1MB", "10MB")
INCAST_WITHIN_US, LONG_WITHIN_US = 10, 100
"""Senders start within this time, at moments that the seed draws."""


@dataclass(frozen=True)
class Case:
    """A scenario that is run once for each seed. All flows of a seed are one batch."""

    name: str
    document: Mapping[str, Any]
    seeds: Sequence[int] = (1,)
    until_s: float = END_S
    watch: Watch | None = None

    def made(self, seed: int) -> tuple[Scenario, Topology, FlowBatch]:
        """Return the scenario of a seed with its network and flows."""
        tables = dict(self.document)
        if "to_one" in tables:
            tables["workload"] = {"flow": _to_one(**tables.pop("to_one"), seed=seed), "vary": False}
        scenario, _, topology = scenario_with(_BASE, name=self.name, seed=seed, **tables)
        (batch,) = scheduled_batches(scenario, topology, np.random.default_rng(seed))
        return scenario, topology, batch


_BASE: dict[str, Any] = {
    "grace": f"{END_S:.0f}s",
    "fabric": {"host_rate": "10Gbit", "link_delay": "1us"},
    "scheme": {"name": "dctcp", "mark_at": "65pkt"},
    "transport": {"connections": "new", "initial_window": 10, "rto_min": "10ms"},
    "simulator": {"recovery": "plain"},
    "workload": {},
}
_UNMARKED = {"name": "dctcp", "mark_at": "10MB"}
"""A marking threshold above every buffer, so that nothing is marked."""
_EIGHT_HOSTS = {"topology": "single", "hosts": 8}
_LEAF_SPINE = {"topology": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4, "core_rate": "10Gbit"}


def _star(senders: int) -> dict[str, Any]:
    return {"topology": "single", "hosts": senders + 1}


def _to_one(senders: int, size: str, within_us: int, seed: int) -> list[dict[str, Any]]:
    """Return a flow from every other host to the first."""
    starts_us = np.random.default_rng(seed).uniform(0, within_us, senders)
    return [
        {"from": f"h{i + 2}", "to": "h1", "bytes": size, "start": f"{round(start * 1000)}ns"}
        for i, start in enumerate(starts_us)
    ]


def _incast(name: str, senders: int, buffer: str, **tables: Any) -> Case:
    flows = {"senders": senders, "size": "64KB", "within_us": INCAST_WITHIN_US}
    document = {"fabric": {**_star(senders), "buffer": buffer}, "to_one": flows, **tables}
    return Case(name, document, seeds=range(1, 21))


def _long(senders: int) -> Case:
    """Return a case of endless flows. At its end, the bytes that arrived are counted."""
    flows = {"senders": senders, "size": "1GB", "within_us": LONG_WITHIN_US}
    document = {"fabric": _star(senders), "to_one": flows}
    watch = Watch("s1:1", WATCH_EVERY_PS)
    return Case(f"long-{senders}", document, seeds=range(1, 6), until_s=LONG_S, watch=watch)


def _lone(name: str, **tables: Any) -> Case:
    """Return a case of flows that run one after the other, each alone in the network."""
    flows = [
        {"from": "h1", "to": "h2", "bytes": size, "start": f"{i * 100}ms"}
        for i, size in enumerate(LONE_SIZES)
    ]
    return Case(name, {"fabric": _EIGHT_HOSTS, "workload": {"flow": flows}, **tables})


def _web(name: str, load: float, flows: int, fabric: Mapping[str, Any]) -> Case:
    workload = {"sizes": "web-search", "pattern": "all-to-all", "load": load, "flows": flows}
    return Case(name, {"fabric": fabric, "workload": workload}, seeds=(1, 2))


LONE = (_lone("lone"), _lone("lone-delayed", simulator={"packets_per_ack": 2, "ack_delay": "0.5ms"}))
LONG = (_long(2), _long(8))
INCASTS = (
    _incast("incast-16", 16, "1MB"),
    _incast("losses-8", 8, "100KB", scheme=_UNMARKED),
    _incast("losses-32", 32, "360KB", scheme=_UNMARKED),
    _incast("marks-and-losses-32", 32, "360KB"),
)
"""Without losses, with losses but no marks, and with both."""


def web_cases(flows: int) -> tuple[Case, ...]:
    return (
        _web("web-0.5", 0.5, flows, _EIGHT_HOSTS),
        _web("web-0.8", 0.8, flows, _EIGHT_HOSTS),
        _web("leaf-spine-0.6", 0.6, flows, _LEAF_SPINE),
    )


def speed_case(flows: int, threads: int | None = None) -> Case:
    """Return DCTCP on the 144 hosts of PIAS's evaluation, for our simulator also on a number of threads."""
    fabric = read_document(SCENARIOS / "pias-144.toml")["fabric"]
    case = _web("pias-144", 0.8, flows, fabric)
    if threads is None:
        return case
    return replace(case, document={**case.document, "simulator": {**_BASE["simulator"], "threads": threads}})


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
    fabric.add_flows(**fabric_columns(flows, {}))
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
    columns = {name: np.zeros(flows, np.int64) for name in parts[0]}
    columns["outcome"][:] = OUTCOMES.index("unfinished")
    for name, column in columns.items():
        column[numbers] = np.concatenate([part[name] for part in parts])
    return columns
