# SPDX-License-Identifier: Apache-2.0
"""A scenario: one TOML document that the testbed and the simulator both run. Unknown keys are errors.

This module turns the parsed tables into checked values; reading files is for the caller, who passes `load_cdf`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from policy import units
from policy.desired import Policy
from policy.errors import FieldError
from policy.explicit import ExplicitWorkload, explicit_workload, schedule_explicit
from policy.graph import Topology
from policy.table import Table
from policy.workload import MIN_FLOW_BYTES, Deadlines, Flow, Mix, MixPart, SizeCdf, Workload, schedule

LoadCdf = Callable[[str], SizeCdf]

PATTERNS = ("all-to-all", "many-to-one")
CONNECTIONS = ("new", "persistent")
MIN_SAMPLE_MS = 10

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
    rto_min_ms: int
    connections: str
    """"new": a connection a flow; "persistent": flows share connections."""
    max_window: int | None = None
    """Packets that a sender has under way at most; None: as its congestion control says."""


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
    workload: Workload | ExplicitWorkload
    background: tuple[Background, ...] = ()
    sample_ms: int | None = None
    """Time between two samples of every flow under way (how its TCP fares); None: no samples are taken."""
    grace_s: float = 10.0
    """After the last flow's start, or the last endless one's end: what is not finished then is unfinished."""


def scenario_from_document(document: Mapping[str, Any], load_cdf: LoadCdf) -> Scenario:
    """Check a parsed scenario. Raises FieldError naming the key ("workload.load") and what is allowed."""
    top = Table("", document)
    name = top.need("name")
    if not isinstance(name, str) or not name or "/" in name:
        raise FieldError("name", "must be text without a slash")
    seed = top.whole("seed", 1, 0, 2**63)
    fabric = _fabric(Table("fabric", top.need("fabric")))
    policy = _policy(top.need("scheme"), fabric)
    transport = _transport(Table("transport", top.take("transport", {})))
    workload = _workload(Table("workload", top.need("workload")), top.take("deadlines"), load_cdf)
    background = _background(top.take("background", []))
    sample_ms = _sample_ms(top) if top.has("sample") else None
    grace_s = top.time_ns("grace", "10s") / 1e9
    top.done()
    return Scenario(name, seed, fabric, policy, transport, workload, background, sample_ms, grace_s)


def _sample_ms(top: Table) -> int:
    interval_ms = top.time_ns("sample", None) // 10**6
    if not MIN_SAMPLE_MS <= interval_ms <= 60_000:
        raise FieldError("sample", f'must be from {MIN_SAMPLE_MS} ms to 60 s, as in "100ms"')
    return interval_ms


def scheduled_flows(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    run_id: str,
    until_s: float = math.inf,
) -> list[Flow]:
    """Every flow of a run that starts before `until_s`, by start time. The same generator state gives the same list."""
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        flows = schedule_explicit(workload, topology, run_id)
        return [flow for flow in flows if flow.start_s < until_s]
    return schedule(workload, topology, rng, run_id, until_s)


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


def _policy(table: object, fabric: Fabric) -> Policy:
    if not isinstance(table, Mapping):
        raise FieldError("scheme", "must be a table with a name")
    document = {"buffer": fabric.buffer_bytes, **table}
    document["scheme"] = document.pop("name", None)
    try:
        return Policy.from_document(document)
    except FieldError as error:
        field = "scheme.name" if error.field == "scheme" else f"scheme.{error.field}"
        raise FieldError(field, error.problem) from None


def _transport(table: Table) -> Transport:
    transport = Transport(
        initial_window=table.whole("initial_window", 10, 1, 1000),
        rto_min_ms=max(1, units.time_ns(table.name("rto_min"), table.take("rto_min", "10ms")) // 10**6),
        connections=table.one_of("connections", "new", CONNECTIONS),
        max_window=table.whole("max_window", None, 1, 100_000) if table.has("max_window") else None,
    )
    table.done()
    return transport


def _workload(table: Table, deadlines: object, load_cdf: LoadCdf) -> Workload | ExplicitWorkload:
    if not table.has("flow"):
        return _random_workload(table, deadlines, load_cdf)
    if deadlines is not None:
        raise FieldError("deadlines", "is for random flows; each [[workload.flow]] says its own")
    return explicit_workload(table)


def _random_workload(table: Table, deadlines: object, load_cdf: LoadCdf) -> Workload:
    pattern = table.one_of("pattern", "all-to-all", PATTERNS)
    to = table.take("to")
    if (pattern == "many-to-one") != isinstance(to, str):
        raise FieldError(
            table.name("to"), "names the receiver of pattern many-to-one, and belongs to that only"
        )
    sizes = _sizes(table, load_cdf)
    shift = table.take("shift")
    shift_table = Table(table.name("shift"), shift) if shift is not None else None
    workload = Workload(
        sizes=sizes,
        pattern=pattern,
        to=to,
        load=table.number("load", None, 0.001, 0.99),
        flows=table.whole("flows", None, 1, 10**9),
        scale=table.number("scale", 1.0, 1e-6, 1e6),
        shift_at=shift_table.number("at", 0.5, 0.0, 1.0) if shift_table else None,
        shifted=_sizes(shift_table, load_cdf) if shift_table else None,
        deadlines=_deadlines(Table("deadlines", deadlines)) if deadlines is not None else None,
    )
    for finished in (table, shift_table):
        if finished:
            finished.done()
    return workload


def _sizes(table: Table, load_cdf: LoadCdf) -> SizeCdf | Mix:
    sizes, mix = table.take("sizes"), table.take("mix")
    if (sizes is None) == (mix is None):
        raise FieldError(table.name("sizes"), "give either sizes (a table's name or a CDF file) or a mix")
    if mix is None:
        return load_cdf(str(sizes))
    if not isinstance(mix, list) or not mix:
        raise FieldError(table.name("mix"), 'must be a list of { bytes = "10KB", share = 0.8 }')
    parts = tuple(_mix_part(Table(f"{table.name('mix')}[{i}]", part)) for i, part in enumerate(mix))
    if abs(sum(part.share for part in parts) - 1) > 1e-6:
        raise FieldError(table.name("mix"), "shares must add up to 1")
    return Mix(parts)


def _mix_part(table: Table) -> MixPart:
    sources = table.take("from", [])
    if not isinstance(sources, list) or not all(isinstance(name, str) for name in sources):
        raise FieldError(table.name("from"), "must be a list of host names")
    size_bytes = units.size_bytes(table.name("bytes"), table.need("bytes"))
    if size_bytes < MIN_FLOW_BYTES:
        raise FieldError(table.name("bytes"), f"must be at least {MIN_FLOW_BYTES} B")
    part = MixPart(size_bytes, table.number("share", None, 0.0, 1.0), tuple(sources))
    table.done()
    return part


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
    for field, name in named:
        if name is not None and name not in hosts:
            raise FieldError(field, f"{name!r} is not a host of the topology; hosts are h1 … h{len(hosts)}")


def _workload_hosts(workload: Workload | ExplicitWorkload) -> list[tuple[str, str | None]]:
    """Key and host, for every host that the workload names."""
    if isinstance(workload, ExplicitWorkload):
        ends = [(f"workload.flow[{i}]", flow.source, flow.to) for i, flow in enumerate(workload.flows)]
        return [
            (f"{path}.{key}", name)
            for path, *two in ends
            for key, name in zip(("from", "to"), two, strict=True)
        ]
    named: list[tuple[str, str | None]] = [("workload.to", workload.to)]
    for sizes in (workload.sizes, workload.shifted):
        if isinstance(sizes, Mix):
            named += [("workload.mix.from", name) for part in sizes.parts for name in part.sources]
    return named


def _deadlines(table: Table) -> Deadlines:
    def time_us(key: str, default: str) -> float:
        return units.time_ns(table.name(key), table.take(key, default)) / 1000

    deadlines = Deadlines(
        share=table.number("share", None, 0.0, 1.0),
        distribution=table.one_of("distribution", "uniform", ("uniform", "exponential")),
        min_us=time_us("min", "5ms"),
        max_us=time_us("max", "25ms"),
        mean_us=time_us("mean", "15ms"),
    )
    if deadlines.min_us > deadlines.max_us:
        raise FieldError("deadlines.min", "must not exceed deadlines.max")
    table.done()
    return deadlines
