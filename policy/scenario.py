# SPDX-License-Identifier: Apache-2.0
"""A scenario: one TOML document that the testbed and the simulator both run. Unknown keys are errors.

This module turns the parsed tables into checked values; reading files is for the caller, who passes `load_cdf`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from policy import units
from policy.desired import Policy
from policy.errors import FieldError
from policy.workload import MIN_FLOW_BYTES, Deadlines, Mix, MixPart, SizeCdf, Workload

LoadCdf = Callable[[str], SizeCdf]

PATTERNS = ("all-to-all", "many-to-one")
CONNECTIONS = ("new", "persistent")

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
    workload: Workload
    background: tuple[Background, ...] = ()


class _Table:
    """A table being read: every key taken once, what is left over is an error."""

    def __init__(self, path: str, values: object) -> None:
        if not isinstance(values, Mapping):
            raise FieldError(path, "must be a table")
        self.path = path
        self.left = dict(values)
        self.taken: list[str] = []

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, default: object = None) -> Any:
        self.taken.append(key)
        return self.left.pop(key, default)

    def need(self, key: str) -> Any:
        if key not in self.left:
            raise FieldError(self.name(key), "is missing")
        return self.take(key)

    def number(self, key: str, default: float | None, low: float, high: float) -> float:
        value = self.need(key) if default is None else self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise FieldError(self.name(key), f"must be a number from {low:g} to {high:g}, not {value!r}")
        return value

    def whole(self, key: str, default: int | None, low: int, high: int) -> int:
        value = self.number(key, default, low, high)
        if not isinstance(value, int):
            raise FieldError(self.name(key), f"must be a whole number, not {value!r}")
        return value

    def one_of(self, key: str, default: str | None, allowed: tuple[str, ...]) -> str:
        value = self.need(key) if default is None else self.take(key, default)
        if value not in allowed:
            raise FieldError(self.name(key), f"must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    def done(self) -> None:
        for key in self.left:
            raise FieldError(
                self.name(key), f"is not a key of a scenario here; there are {', '.join(self.taken)}"
            )


def scenario_from_document(document: Mapping[str, Any], load_cdf: LoadCdf) -> Scenario:
    """Check a parsed scenario. Raises FieldError naming the key ("workload.load") and what is allowed."""
    top = _Table("", document)
    name = top.need("name")
    if not isinstance(name, str) or not name or "/" in name:
        raise FieldError("name", "must be text without a slash")
    seed = top.whole("seed", 1, 0, 2**63)
    fabric = _fabric(_Table("fabric", top.need("fabric")))
    policy = _policy(top.need("scheme"), fabric)
    transport = _transport(_Table("transport", top.take("transport", {})))
    workload = _workload(_Table("workload", top.need("workload")), top.take("deadlines"), load_cdf)
    background = _background(top.take("background", []))
    top.done()
    return Scenario(name, seed, fabric, policy, transport, workload, background)


def _fabric(table: _Table) -> Fabric:
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


def _transport(table: _Table) -> Transport:
    transport = Transport(
        initial_window=table.whole("initial_window", 10, 1, 1000),
        rto_min_ms=max(1, units.time_ns(table.name("rto_min"), table.take("rto_min", "10ms")) // 10**6),
        connections=table.one_of("connections", "new", CONNECTIONS),
    )
    table.done()
    return transport


def _workload(table: _Table, deadlines: object, load_cdf: LoadCdf) -> Workload:
    pattern = table.one_of("pattern", "all-to-all", PATTERNS)
    to = table.take("to")
    if (pattern == "many-to-one") != isinstance(to, str):
        raise FieldError(
            table.name("to"), "names the receiver of pattern many-to-one, and belongs to that only"
        )
    sizes = _sizes(table, load_cdf)
    shift = table.take("shift")
    shift_table = _Table(table.name("shift"), shift) if shift is not None else None
    workload = Workload(
        sizes=sizes,
        pattern=pattern,
        to=to,
        load=table.number("load", None, 0.001, 0.99),
        flows=table.whole("flows", None, 1, 10**9),
        scale=table.number("scale", 1.0, 1e-6, 1e6),
        shift_at=shift_table.number("at", 0.5, 0.0, 1.0) if shift_table else None,
        shifted=_sizes(shift_table, load_cdf) if shift_table else None,
        deadlines=_deadlines(_Table("deadlines", deadlines)) if deadlines is not None else None,
    )
    for finished in (table, shift_table):
        if finished:
            finished.done()
    return workload


def _sizes(table: _Table, load_cdf: LoadCdf) -> SizeCdf | Mix:
    sizes, mix = table.take("sizes"), table.take("mix")
    if (sizes is None) == (mix is None):
        raise FieldError(table.name("sizes"), "give either sizes (a table's name or a CDF file) or a mix")
    if mix is None:
        return load_cdf(str(sizes))
    if not isinstance(mix, list) or not mix:
        raise FieldError(table.name("mix"), 'must be a list of { bytes = "10KB", share = 0.8 }')
    parts = tuple(_mix_part(_Table(f"{table.name('mix')}[{i}]", part)) for i, part in enumerate(mix))
    if abs(sum(part.share for part in parts) - 1) > 1e-6:
        raise FieldError(table.name("mix"), "shares must add up to 1")
    return Mix(parts)


def _mix_part(table: _Table) -> MixPart:
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
        table = _Table(f"background[{index}]", entry)
        rate = table.take("rate")
        rate_bps = None if rate is None else units.rate_bps(table.name("rate"), rate)
        flows.append(Background(str(table.need("from")), str(table.need("to")), rate_bps))
        table.done()
    return tuple(flows)


def check_hosts(scenario: Scenario, hosts: Collection[str]) -> None:
    """Every host that the scenario names is one of the topology's; FieldError names the key otherwise."""
    named = [("workload.to", scenario.workload.to)]
    for sizes in (scenario.workload.sizes, scenario.workload.shifted):
        if isinstance(sizes, Mix):
            named += [("workload.mix.from", name) for part in sizes.parts for name in part.sources]
    for flow in scenario.background:
        named += [("background.from", flow.source), ("background.to", flow.to)]
    for field, name in named:
        if name is not None and name not in hosts:
            raise FieldError(field, f"{name!r} is not a host of the topology; hosts are h1 … h{len(hosts)}")


def _deadlines(table: _Table) -> Deadlines:
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
