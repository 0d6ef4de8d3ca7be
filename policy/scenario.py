# SPDX-License-Identifier: Apache-2.0
"""A scenario: one TOML document that the testbed and the simulator both run. Unknown keys are errors.

This module turns the parsed tables into checked values. The caller reads the files and passes `load_cdf`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from policy.desired import Policy
from policy.entries import TableOf, entries, entry, read
from policy.errors import FieldError, unknown_key
from policy.explicit import ExplicitWorkload, explicit_batches
from policy.graph import Topology
from policy.kinds import Choice, Duration, ListOf, Rate, Size, Text, Whole
from policy.links import Links
from policy.marking import DEFAULT_BUFFER_BYTES
from policy.random_flows import check_random, random_batches
from policy.schedule import ScheduledFlow
from policy.sizes import Mix
from policy.static_thresholds import solved
from policy.traces import Trace
from policy.units import NS_PER_MS, NS_PER_S, NS_PER_US, US_PER_S
from policy.workload import BATCH_FLOWS, FlowBatch, TraceWorkload, Workload, flows_of
from policy.workload_table import AnyWorkload, LoadCdf, LoadTrace, workload_from

TABLES = ("fabric", "scheme", "transport", "simulator", "workload", "deadlines")
"""The tables of a scenario, beside its own keys."""

RTO_INITIAL_US = US_PER_S
"""RFC 6298, section 2: before a connection's first round trip has been measured."""

_TIMEOUT = Duration(NS_PER_US, 120 * NS_PER_S, to="us")
_HOST = Text(pattern=r"[^\x00]+", longest=64, what="the name of a host")


@dataclass(frozen=True)
class Fabric:
    """The [fabric] table: what `topologies.build` takes, and the buffer of a port."""

    topology: str
    parameters: Mapping[str, Any]
    """Keys of `policy.links.Links` by their attributes; keys of the topology itself as they are."""
    buffer_bytes: int


@dataclass(frozen=True)
class FabricKeys(Links):
    """The keys of [fabric] that do not depend on the topology."""

    topology: str = entry(Text(longest=64), "Kind of network: single, dumbbell or leaf-spine.")
    buffer_bytes: int = entry(
        Size(1, 10**12),
        "What a port buffers over all its queues. [scheme] may say another buffer.",
        key="buffer",
        default=DEFAULT_BUFFER_BYTES,
    )


@dataclass(frozen=True)
class Transport:
    """The [transport] table: the TCP of every host."""

    initial_window: int = entry(Whole(1, 1000, "packets"), "First window of a connection.", default=10)
    rto_min_us: int = entry(
        _TIMEOUT,
        "Least retransmission timeout. The testbed takes whole milliseconds, the simulator microseconds.",
        key="rto_min",
        default=10_000,
    )
    connections: str = entry(
        Choice(("new", "persistent")),
        "new: one connection for each flow. persistent: flows to one destination share connections.",
        default="new",
    )
    max_window: int | None = entry(
        Whole(1, 100_000, "packets"),
        "The most packets that a sender has in flight. By default, as its congestion control says.",
        default=None,
    )

    @property
    def rto_min_ms(self) -> int:
        """As a kernel takes it. Raises FieldError if the scenario's value is not whole milliseconds."""
        milliseconds, rest_us = divmod(self.rto_min_us, 1000)
        if rest_us or not milliseconds:
            raise FieldError(
                "transport.rto_min",
                f"is {self.rto_min_us} us, but the testbed's kernel takes whole milliseconds from 1 on: "
                f'give "{max(1, round(self.rto_min_us / 1000))}ms", or run it on the simulator',
            )
        return milliseconds


@dataclass(frozen=True)
class SimulatorSettings:
    """The [simulator] table: what a testbed has by nature. The testbed ignores it."""

    multipath: str = entry(
        Choice(("per-flow", "per-packet")),
        "Equal-cost links. per-flow: chosen by a hash of the flow. per-packet: packets take them in turn.",
        default="per-flow",
    )
    duplicate_threshold: int = entry(
        Whole(0, 10**6, "packets"),
        "Packets beyond a gap until it counts as lost. 0: only timeouts find losses.",
        default=3,
    )
    recovery: str = entry(
        Choice(("linux", "plain")),
        "linux: RACK-TLP (RFC 8985) finds lost retransmissions and tails, and learns how far packets overtake each"
        " other; Eifel undoes needless reductions. plain: RFC 6298 alone, as in ns-2 and ns-3. By default linux, or"
        " plain with duplicate_threshold = 0.",
        default="linux",
    )
    packets_per_ack: int = entry(Whole(1, 64), "Packets that one ACK acknowledges.", default=1)
    ack_delay_ns: int = entry(
        Duration(1, NS_PER_S), "How long an ACK waits for another packet.", key="ack_delay", default=500_000
    )
    rto_initial_us: int = entry(
        _TIMEOUT,
        "Timeout before the first round trip was measured. By default 1 s, or rto_min with persistent connections.",
        key="rto_initial",
        default=RTO_INITIAL_US,
    )
    uplink: str = entry(
        Choice(("fabric", "free", "unshaped")),
        "A host's own port. fabric: it queues, marks and drops as a switch port. free: it only serialises. unshaped:"
        " it takes no time, so the first queue is the switch's.",
        default="fabric",
    )
    links: str = entry(
        Choice(("real", "emulated")),
        "real: a packet takes its time on the link. emulated: a token bucket and a virtual queue, as on the testbed"
        " (policy/emulation.py).",
        default="real",
    )
    late: str = entry(
        Choice(("urgent", "plain")),
        "A flow past its deadline. urgent: it continues as the most urgent. plain: as one without a deadline.",
        default="urgent",
    )
    mark_by: str = entry(
        Choice(("port", "queue", "ahead")),
        "The backlog that marks. port: all of the port, as on the testbed. queue: the packet's own queue. ahead: the"
        " queues that are served no later than the packet's.",
        default="port",
    )


@dataclass(frozen=True)
class Background:
    """A [[background]] table: a long flow beside the workload, iperf on the testbed. It is not part of the result."""

    source: str = entry(_HOST, "Sending host.", key="from")
    to: str = entry(_HOST, "Receiving host.")
    rate_bps: int | None = entry(
        Rate(1, 10**12), "Rate of the flow. By default, as much as it gets.", key="rate", default=None
    )


@dataclass(frozen=True)
class ScenarioKeys:
    """The keys at the top of a scenario, apart from its tables."""

    name: str = entry(
        Text(pattern=r"[^/\x00]+", longest=200, what="text without a slash"), "Name of the scenario."
    )
    seed: int = entry(Whole(0, 2**63), "Seed of everything that is drawn at random.", default=1)
    sample_ms: int | None = entry(
        Duration(10 * NS_PER_MS, 60 * NS_PER_S, to="ms"),
        "Time between two samples of every flow (rate, alpha, urgency, precedence). By default, no samples.",
        key="sample",
        default=None,
    )
    grace_s: float = entry(
        Duration(0, 3600 * NS_PER_S, to="s", whole=False),
        "How long after the last start a flow may still finish.",
        key="grace",
        default=10.0,
    )
    background: tuple[Background, ...] = entry(
        ListOf(TableOf(Background)), "Long flows beside the workload.", default=()
    )


@dataclass(frozen=True)
class Scenario:
    name: str
    seed: int
    fabric: Fabric
    policy: Policy
    transport: Transport
    workload: AnyWorkload
    background: tuple[Background, ...] = ()
    sample_ms: int | None = None
    grace_s: float = 10.0
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)

    @property
    def size_scale(self) -> float:
        """Of the workload's sizes, and with them of the size classes' limits."""
        return 1.0 if isinstance(self.workload, ExplicitWorkload) else self.workload.scale


def no_traces(name: str) -> Trace:
    """For callers that have no files."""
    raise FieldError("workload.trace", f"{name!r} cannot be read here: run the scenario from a file")


def scenario_from_document(
    document: Mapping[str, Any], load_cdf: LoadCdf, load_trace: LoadTrace = no_traces
) -> Scenario:
    """Check a parsed scenario. Raises FieldError that names the key ("workload.load") and what is allowed."""
    rest = {key: value for key, value in document.items() if key not in TABLES}
    for table in ("fabric", "scheme", "workload"):
        if table not in document:
            raise FieldError(table, "is missing")
    known = [*(one.key for one in entries(ScenarioKeys)), *TABLES]
    for key in rest:
        if key not in known:
            raise unknown_key(str(key), str(key), known)
    top = read(ScenarioKeys, rest)
    fabric = _fabric(document["fabric"])
    transport = read(Transport, document.get("transport", {}), "transport")
    simulator = _simulator(document.get("simulator", {}), transport)
    workload = workload_from(document["workload"], document.get("deadlines"), load_cdf, load_trace)
    policy = _policy(document["scheme"], fabric, workload)
    return Scenario(
        name=top.name,
        seed=top.seed,
        fabric=fabric,
        policy=policy,
        transport=transport,
        workload=workload,
        background=top.background,
        sample_ms=top.sample_ms,
        grace_s=top.grace_s,
        simulator=simulator,
    )


def scheduled_batches(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """Every flow of a run that starts before `until_s`, by start time, in batches of at most about `batch_flows`.

    The same generator state gives the same flows, whatever the size of a batch. FieldError at once when the topology
    has not the hosts that the workload needs.
    """
    check_hosts(scenario, topology.host_by_name)
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        return explicit_batches(workload, topology, until_s, batch_flows)
    return random_batches(workload, topology, rng, until_s, batch_flows)


def scheduled_flows(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    run_id: str,
    until_s: float = math.inf,
) -> list[ScheduledFlow]:
    """The same flows as objects; a flow's id tells its place in the run."""
    batches = scheduled_batches(scenario, topology, rng, until_s)
    return flows_of(batches, topology, run_id, scenario.size_scale)


def check_topology(scenario: Scenario, topology: Topology) -> None:
    """The topology has what the scenario needs, and every link the rate for its load; else FieldError names the key."""
    check_hosts(scenario, topology.host_by_name)
    if not isinstance(scenario.workload, ExplicitWorkload):
        check_random(scenario.workload, topology)


def _fabric(table: object) -> Fabric:
    """The keys of the topology itself are checked when it is built."""
    if not isinstance(table, Mapping):
        raise FieldError("fabric", "must be a table")
    known = {one.key for one in entries(FabricKeys)}
    keys = read(FabricKeys, {key: value for key, value in table.items() if key in known}, "fabric")
    links = {one.name: getattr(keys, one.name) for one in entries(Links) if one.key in table}
    own = {key: value for key, value in table.items() if key not in known}
    return Fabric(keys.topology, {**own, **links}, keys.buffer_bytes)


def _policy(table: object, fabric: Fabric, workload: AnyWorkload) -> Policy:
    if not isinstance(table, Mapping):
        raise FieldError("scheme", "must be a table with a name")
    document = {"buffer": fabric.buffer_bytes, **table}
    document["scheme"] = document.pop("name", None)
    sizes, load, scale = None, None, 1.0
    if isinstance(workload, Workload):
        sizes, load, scale = workload.sizes, workload.load, workload.scale
    try:
        return Policy.from_document(solved(document, sizes, load, scale))
    except FieldError as error:
        field = "scheme.name" if error.field == "scheme" else f"scheme.{error.field}"
        raise FieldError(field, error.problem) from None


def _simulator(table: object, transport: Transport) -> SimulatorSettings:
    """A persistent connection has measured its round trip before the run: its timeout starts at the least one."""
    settings = read(SimulatorSettings, table, "simulator")
    given = table if isinstance(table, Mapping) else {}
    if "recovery" not in given and not settings.duplicate_threshold:
        settings = replace(settings, recovery="plain")
    if "rto_initial" not in given and transport.connections == "persistent":
        settings = replace(settings, rto_initial_us=transport.rto_min_us)
    return settings


def check_hosts(scenario: Scenario, hosts: Collection[str]) -> None:
    """Every host that the scenario names is one of the topology's; FieldError names the key otherwise."""
    named = _workload_hosts(scenario.workload)
    for flow in scenario.background:
        named += [("background.from", flow.source), ("background.to", flow.to)]
    for key, name in named:
        if name is not None and name not in hosts:
            raise FieldError(key, f"{name!r} is not a host of the topology; hosts are h1 … h{len(hosts)}")


def _workload_hosts(workload: AnyWorkload) -> list[tuple[str, str | None]]:
    """Key and host, for every host that the workload names."""
    if isinstance(workload, ExplicitWorkload):
        ends = [(f"workload.flow[{i}]", flow.source, flow.to) for i, flow in enumerate(workload.flows)]
        return [
            (f"{path}.{key}", name)
            for path, *two in ends
            for key, name in zip(("from", "to"), two, strict=True)
        ]
    named: list[tuple[str, str | None]] = [("workload.to", workload.to)]
    if isinstance(workload, TraceWorkload):
        return named
    for sizes in (workload.sizes, workload.shifted):
        if isinstance(sizes, Mix):
            named += [("workload.mix.from", name) for part in sizes.parts for name in part.sources]
    return named
