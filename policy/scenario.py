# SPDX-License-Identifier: Apache-2.0
"""A scenario: one TOML document that the testbed and the simulator both run. Unknown keys are errors.

This module turns the parsed tables into checked values; reading files is for the caller, who passes `load_cdf`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policy import units
from policy.desired import Policy
from policy.drawing import check_random, random_batches
from policy.errors import FieldError
from policy.explicit import ExplicitWorkload, explicit_batches
from policy.graph import Topology
from policy.sizes import Mix
from policy.static_thresholds import solved
from policy.table import Table
from policy.traces import Trace
from policy.workload import BATCH_FLOWS, Flow, FlowBatch, TraceWorkload, Workload, flows_of
from policy.workload_table import AnyWorkload, LoadCdf, LoadTrace, workload_from

CONNECTIONS = ("new", "persistent")
RECOVERIES = ("linux", "plain")
LATE = ("urgent", "plain")
LINKS = ("real", "emulated")
MARK_BY = ("port", "queue", "ahead")
MULTIPATH = ("per-flow", "per-packet")
UPLINKS = ("fabric", "free", "unshaped")
MIN_SAMPLE_MS = 10
MAX_RTO_US = 120_000_000
RTO_INITIAL = "1s"
"""RFC 6298, section 2: before a connection's first round trip has been measured."""

_RATES = ("host_rate", "core_rate")
_DELAYS = ("link_delay", "host_delay")


@dataclass(frozen=True)
class Fabric:
    """The [fabric] table: what `topologies.build` takes, and the buffer of a port."""

    topology: str
    parameters: Mapping[str, Any]
    buffer_bytes: int


@dataclass(frozen=True)
class Transport:
    initial_window: int
    """Packets."""
    rto_min_us: int
    connections: str
    """"new": a connection a flow; "persistent": flows share connections."""
    max_window: int | None = None
    """Packets that a sender has under way at most; None: as its congestion control says."""

    @property
    def rto_min_ms(self) -> int:
        """As a kernel takes it; FieldError when that is not what the scenario says."""
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

    multipath: str = "per-flow"
    """"per-flow": equal-cost links by a hash of the flow; "per-packet": its packets take them in turn."""
    duplicate_threshold: int = 3
    """Packets beyond a gap until it counts as lost; 0: only timeouts tell."""
    recovery: str = "linux"
    """"linux": lost retransmissions and tails are found by RACK-TLP (RFC 8985), which learns how far packets overtake
    each other, a needless reduction is taken back (Eifel), and the timeout exceeds the round trip by the least one;
    "plain": all that waits for the timeout of RFC 6298 or is not done, as in ns-2 and ns-3."""
    packets_per_ack: int = 1
    ack_delay_ns: int = 500_000
    """An ACK waits so long for a further packet, at most."""
    rto_initial_us: int = 1_000_000
    """Retransmission timeout before the first round trip was measured."""
    uplink: str = "fabric"
    """"fabric": a host's own port queues, marks and drops as a switch's does; "free": it serialises, no more;
    "unshaped": it takes no time, the first queue is the switch's."""
    links: str = "real"
    """"real": a packet takes its time on the link; "emulated": a token bucket as on the testbed (policy/emulation.py),
    which lets packets go at once while it has credit, and a virtual queue marks and bounds."""
    late: str = "urgent"
    """"urgent": past its deadline a flow goes on as the most urgent; "plain": as one without a deadline."""
    mark_by: str = "port"
    """The backlog that marks: "port": all that waits in the port, as on the testbed; "queue": in the packet's queue;
    "ahead": in the queues that are served no later than the packet's."""


@dataclass(frozen=True)
class Background:
    """A long flow that runs beside the workload and is not part of the result: iperf on the testbed."""

    source: str
    to: str
    rate_bps: int | None
    """None: as much as it gets."""


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
    """Time between two samples of every flow under way (how its TCP fares); None: no samples are taken."""
    grace_s: float = 10.0
    """After the last flow's start, or the last endless one's end: what is not finished then is unfinished."""
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
    """Check a parsed scenario. Raises FieldError naming the key ("workload.load") and what is allowed."""
    top = Table("", document)
    name = top.need("name")
    if not isinstance(name, str) or not name or "/" in name:
        raise FieldError("name", "must be text without a slash")
    seed = top.whole("seed", 1, 0, 2**63)
    fabric = _fabric(Table("fabric", top.need("fabric")))
    scheme = top.need("scheme")
    transport = _transport(Table("transport", top.take("transport", {})))
    simulator = _simulator(Table("simulator", top.take("simulator", {})), transport)
    workload = workload_from(
        Table("workload", top.need("workload")), top.take("deadlines"), load_cdf, load_trace
    )
    policy = _policy(scheme, fabric, workload)
    background = _background(top.take("background", []))
    sample_ms = _sample_ms(top) if top.has("sample") else None
    grace_s = top.time_ns("grace", "10s") / 1e9
    top.done()
    return Scenario(
        name, seed, fabric, policy, transport, workload, background, sample_ms, grace_s, simulator
    )


def _sample_ms(top: Table) -> int:
    interval_ms = top.time_ns("sample", None) // 10**6
    if not MIN_SAMPLE_MS <= interval_ms <= 60_000:
        raise FieldError("sample", f'must be from {MIN_SAMPLE_MS} ms to 60 s, as in "100ms"')
    return interval_ms


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
) -> list[Flow]:
    """The same flows as objects; a flow's id tells its place in the run."""
    batches = scheduled_batches(scenario, topology, rng, until_s)
    return flows_of(batches, topology, run_id, scenario.size_scale)


def check_topology(scenario: Scenario, topology: Topology) -> None:
    """The topology has what the scenario needs, and every link the rate for its load; else FieldError names the key."""
    check_hosts(scenario, topology.host_by_name)
    if not isinstance(scenario.workload, ExplicitWorkload):
        check_random(scenario.workload, topology)


def _fabric(table: Table) -> Fabric:
    topology = table.need("topology")
    buffer_bytes = units.size_bytes(table.name("buffer"), table.take("buffer", "360KB"))
    parameters: dict[str, Any] = {}
    for key, value in table.left.items():
        if key in _RATES:
            parameters[f"{key}_bps"] = units.rate_bps(table.name(key), value)
        elif key in _DELAYS:
            parameters[f"{key}_ns"] = units.time_ns(table.name(key), value)
        else:
            parameters[key] = value
    return Fabric(topology, parameters, buffer_bytes)


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


def _transport(table: Table) -> Transport:
    transport = Transport(
        initial_window=table.whole("initial_window", 10, 1, 1000),
        rto_min_us=_timeout_us(table, "rto_min", "10ms"),
        connections=table.one_of("connections", "new", CONNECTIONS),
        max_window=table.whole("max_window", None, 1, 100_000) if table.has("max_window") else None,
    )
    table.done()
    return transport


def _timeout_us(table: Table, key: str, default: str) -> int:
    timeout_us, rest_ns = divmod(table.time_ns(key, default), 1000)
    if rest_ns or not 1 <= timeout_us <= MAX_RTO_US:
        raise FieldError(table.name(key), 'must be whole microseconds up to 2min, as in "250us"')
    return timeout_us


def _simulator(table: Table, transport: Transport) -> SimulatorSettings:
    """A persistent connection has measured its round trip before the run: its timeout starts at the least one."""
    initial = RTO_INITIAL if transport.connections == "new" else f"{transport.rto_min_us}us"
    threshold = table.whole("duplicate_threshold", 3, 0, 10**6)
    settings = SimulatorSettings(
        multipath=table.one_of("multipath", "per-flow", MULTIPATH),
        duplicate_threshold=threshold,
        recovery=table.one_of("recovery", "linux" if threshold else "plain", RECOVERIES),
        packets_per_ack=table.whole("packets_per_ack", 1, 1, 64),
        ack_delay_ns=table.time_ns("ack_delay", "0.5ms"),
        rto_initial_us=_timeout_us(table, "rto_initial", initial),
        uplink=table.one_of("uplink", "fabric", UPLINKS),
        links=table.one_of("links", "real", LINKS),
        late=table.one_of("late", "urgent", LATE),
        mark_by=table.one_of("mark_by", "port", MARK_BY),
    )
    if settings.ack_delay_ns <= 0:
        raise FieldError(table.name("ack_delay"), "must be above zero")
    table.done()
    return settings


def _background(tables: object) -> tuple[Background, ...]:
    if not isinstance(tables, list):
        raise FieldError("background", 'must be a list of { from = "h2", to = "h1" }')
    flows = []
    for index, entry in enumerate(tables):
        table = Table(f"background[{index}]", entry)
        rate = table.take("rate")
        rate_bps = None if rate is None else units.rate_bps(table.name("rate"), rate)
        flows.append(Background(str(table.need("from")), str(table.need("to")), rate_bps))
        table.done()
    return tuple(flows)


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
