# SPDX-License-Identifier: Apache-2.0
"""Workloads that list every flow: sender, receiver, size, start and deadline.

[[workload.flow]]
from = "h2"
to = "h1"
bytes = "10MB"            # or until = "8s": an endless flow, which the host sends until 8 s of the run
start = "1s"
deadline = "4s"
label = "urgent"

Traces as tables: one row for each flow, with the columns time, src, dst, bytes and, if they are known, deadline.

    time,src,dst,bytes,deadline
    0s,h1,h3,20KB,5ms
    120us,h2,h3,1MB,

A value is a quantity with a unit, as in a scenario. A column whose name ends in its unit holds plain numbers: time_s,
time_ms, time_us, time_ns, and the same for deadline. Sizes may be plain numbers, because the column's name is their
unit. The deadline counts from the flow's start; an empty value means that the flow has none. A plain number of fewer
than 64 bytes is a flow of 64. Columns of other names have no effect. Hosts may be numbers from 0, or IP addresses.

Lists of flows as other simulators have them, known by their content. Hosts are numbered from 0 there: 0 is h1.

    HPCC's ns-3     3                                 a count, then: src dst priority port bytes start_s
                    0 2 3 100 150000 2.0
    Homa            0 2 310000 0.000013               src dst bytes start_s
    htsim           Nodes 4                           then: src->dst [id N] start picoseconds size bytes
                    Connections 1
                    0->2 start 13000 size 310000

Times count from the first flow if it starts a second or more after 0. Flows of fewer than 64 bytes have 64.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from sluice.policy import controls, units
from sluice.policy.errors import FieldError, guess, refuse_unknown, shortened
from sluice.policy.figures.metrics import Array, IdealTimes
from sluice.policy.network.graph import Topology
from sluice.policy.schema.entries import entries, entry, read
from sluice.policy.schema.kinds import Choice, Duration, Flag, Kind, Number, OneOrMore, Schema, Size, Text
from sluice.policy.wire.records import QUENCH
from sluice.policy.workload.flows import BATCH_FLOWS, LEVEL, FlowBatch, all_or_none

VARY: Any = entry(
    Flag(),
    "Whether seeds other than 1 make runs of their own: each flow starts later by less than a full packet takes at its"
    " sender's link, and the simulator chooses among equal-cost links by another hash.",
    default=True,
)
MAX_IMPORTANCE = 8.0
"""The kernel accepts no more (dataplane/include/sluice.h)."""


@dataclass(frozen=True)
class ControlName(Kind):
    """A congestion control that any fabric has; files add some."""

    name: ClassVar[str] = "name"

    def read(self, where: str, value: object) -> str:
        return Choice(tuple(controls.selectable())).read(where, value)

    @property
    def allowed(self) -> str:
        return Choice(tuple(controls.selectable())).allowed

    def schema(self) -> Schema:
        return {"type": "string"}


CONTROL: Any = entry(
    ControlName(),
    "Congestion control of these flows, with the defaults of its parameters: dctcp, ucp, d2tcp, datcp, mcp, reno, cubic"
    " or that of a file. By default the scheme's.",
    default=None,
)
HOST = Text(longest=64, what="the name of a host")
_LONGEST_NS = 86_400 * units.NS_PER_S
TIME_S = Duration(0, _LONGEST_NS, to="s", whole=False)
_TIME_US = Duration(1, _LONGEST_NS, to="us", whole=False)


@dataclass(frozen=True)
class ExplicitFlow:
    """A [[workload.flow]] table. Times count from the start of the run; the deadline counts from the flow's start."""

    source: str = entry(HOST, "Sending host.", key="from")
    to: str = entry(HOST, "Receiving host.")
    start_s: float = entry(TIME_S, "Start of the flow.", key="start", default=0.0)
    bytes: int | None = entry(
        Size(units.MIN_FLOW_BYTES, units.MAX_FLOW_BYTES), "Size of the flow.", default=None
    )
    until_s: float | None = entry(
        TIME_S, "Instead of bytes: the host sends an endless flow until then.", key="until", default=None
    )
    deadline_us: float | None = entry(
        _TIME_US,
        "Deadline from the flow's start. An endless flow takes its urgency from it.",
        key="deadline",
        default=None,
    )
    declared_size: bool | None = entry(
        Flag(),
        "Whether the program declares the size. By default only with a deadline; required there.",
        key="size_known",
        default=None,
    )
    elapsed_us: float | None = entry(
        _TIME_US,
        "With a deadline: how long the flow has waited in its program before its start.",
        key="elapsed",
        default=None,
    )
    importance: float | None = entry(
        Number(0.001, MAX_IMPORTANCE), "Importance; a standard flow has 1.", default=None
    )
    importance_share: float | None = entry(
        Number(0, 1), "Weight of the importance in the precedence; the urgency has the rest.", default=None
    )
    quench: str = entry(
        Choice(QUENCH), "What happens to the flow if it cannot meet its deadline.", default="never"
    )
    label: str = entry(
        Text(longest=64),
        "Name for samples and plots, which flows may share: a coflow, or an iteration.",
        default="",
    )
    names: tuple[str, ...] = entry(
        OneOrMore(Text(longest=80)),
        "Further names for `after`, one or a list, which flows may share.",
        key="name",
        default=(),
    )
    after: tuple[str, ...] = entry(
        OneOrMore(Text(longest=80)),
        "Labels and names of flows, one or a list. The flow starts once all of them have ended; start counts from"
        " then. On the simulator only.",
        default=(),
    )
    control: str | None = CONTROL
    level: int | None = LEVEL

    @property
    def groups(self) -> tuple[str, ...]:
        """What other flows may wait for."""
        return (self.label, *self.names) if self.label else self.names

    @property
    def size_known(self) -> bool:
        """The program declares the size. By default it does if it declares a deadline.

        The least rate that meets the deadline follows from both.
        """
        if self.declared_size is not None:
            return self.declared_size
        return self.bytes is not None and self.deadline_us is not None


@dataclass(frozen=True)
class ExplicitWorkload:
    """All flows of a run, in the order of the document."""

    flows: tuple[ExplicitFlow, ...]
    places: tuple[str, ...] = ()
    """The place of each flow in its file, if the flows come from one."""
    vary: bool = True
    """Whether the scenario's seed varies starts and paths."""
    of_collectives: int = 0
    """How many of them, the last ones, come from [[workload.collective]]."""

    @property
    def controls(self) -> frozenset[str]:
        """Names of the congestion controls that flows ask for."""
        return frozenset(flow.control for flow in self.flows if flow.control)

    @property
    def has_followers(self) -> bool:
        """Whether flows start after others."""
        return any(flow.after for flow in self.flows)

    def place(self, index: int, key: str) -> tuple[str, str]:
        """Return the key of the scenario that holds a value of a flow, and the value's place within its file."""
        if index >= len(self.flows) - self.of_collectives:
            return "workload.collective", ""
        if not self.places:
            return f"workload.flow[{index}].{key}", ""
        return "workload.trace", f"{self.places[index]}: "


def explicit_workload(table: Mapping[str, object], others: Sequence[ExplicitFlow] = ()) -> ExplicitWorkload:
    """Read a [workload] with [[workload.flow]] tables, and add other flows. Raises FieldError that names the key."""
    refuse_unknown(table, ("flow", "collective", "vary"), "workload.")
    tables = table.get("flow", [])
    if not isinstance(tables, list) or not (tables or others):
        raise FieldError("workload.flow", "must be a list of at least one table: write [[workload.flow]]")
    flows = (*(_flow(f"workload.flow[{i}]", given) for i, given in enumerate(tables)), *others)
    _check_order(flows)
    vary = Flag().read("workload.vary", table.get("vary", True))
    return ExplicitWorkload(flows, vary=vary, of_collectives=len(others))


def _check_order(flows: Sequence[ExplicitFlow]) -> None:
    """Raise FieldError if a flow waits for one that does not exist, or for itself."""
    order: TopologicalSorter[str] = TopologicalSorter()
    groups = {group for flow in flows for group in flow.groups}
    for i, flow in enumerate(flows):
        for group in flow.groups:
            order.add(group, *flow.after)
        for other in flow.after:
            if other not in groups:
                raise FieldError(
                    f"workload.flow[{i}].after",
                    f"{shortened(other)} is neither the label nor the name of a flow{guess(other, groups)}",
                )
    try:
        order.prepare()
    except CycleError as error:
        raise FieldError(
            "workload.flow", f"has flows that wait for each other: {' → '.join(error.args[1])}"
        ) from None


def _flow(where: str, table: object) -> ExplicitFlow:
    flow = read(ExplicitFlow, table, where)

    def refuse(key: str, problem: str) -> FieldError:
        return FieldError(f"{where}.{key}", problem)

    if (flow.bytes is None) == (flow.until_s is None):
        raise refuse("bytes", 'give either bytes, or until = "8s" for an endless flow')
    if flow.until_s is not None and flow.until_s <= flow.start_s:
        raise refuse("until", "must be later than start")
    if flow.until_s is not None and flow.after:
        raise refuse("until", "must not stand beside after: an endless flow starts at a time of its own")
    if (flow.importance is None) != (flow.importance_share is None):
        raise refuse("importance_share", "needs importance, and importance needs it: give both or neither")
    if flow.size_known and flow.bytes is None:
        raise refuse(
            "size_known",
            "must be false for an endless flow, which has no size: give bytes or omit size_known",
        )
    if not flow.size_known and flow.bytes is not None and flow.deadline_us is not None:
        raise refuse(
            "size_known",
            "must be true with a deadline, because the rate follows from size and deadline: omit size_known",
        )
    if flow.source == flow.to:
        raise refuse("to", "must differ from the host in from")
    if flow.elapsed_us is not None and flow.deadline_us is None:
        raise refuse("elapsed", "applies only to flows with a deadline: give deadline or omit elapsed")
    if flow.quench != "never" and (flow.deadline_us is None or flow.until_s is not None):
        raise refuse("quench", "applies only to flows with bytes and a deadline: give both or omit quench")
    return flow


def explicit_batches(
    workload: ExplicitWorkload,
    topology: Topology,
    rng: np.random.Generator | None = None,
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """The flows that start before `until_s`, by start time. Flows with one start time keep the document's order. Flows
    that start after others are not among them.

    `rng`: each flow that ends starts later by a random part of the time that a full packet takes at its sender's link.
    """
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    ideal = IdealTimes(topology)
    flows = first_flows(workload, topology, rng, until_s)
    for first in range(0, len(flows), batch_flows):
        yield batch_of(first, flows[first : first + batch_flows], index, ideal)


def first_flows(
    workload: ExplicitWorkload,
    topology: Topology,
    rng: np.random.Generator | None = None,
    until_s: float = math.inf,
) -> list[ExplicitFlow]:
    """Return the flows that start at a time of their own, before `until_s`, by start time. `rng`: see above."""
    flows = [flow for flow in workload.flows if flow.start_s < until_s and not flow.after]
    if rng is not None:
        packet_s = [8 * units.FRAME_BYTES / topology.edge_port(flow.source).rate_bps for flow in flows]
        late_s = (rng.random(len(flows)) * packet_s).tolist()
        flows = [
            flow if flow.until_s is not None else replace(flow, start_s=flow.start_s + late)
            for flow, late in zip(flows, late_s, strict=True)
        ]
    return sorted(flows, key=lambda flow: flow.start_s)


def batch_of(
    first: int, flows: Sequence[ExplicitFlow], index: Mapping[str, int], ideal: IdealTimes
) -> FlowBatch:
    """Return flows as a batch. `index`: a host's place in the topology."""

    def times(value: Callable[[ExplicitFlow], float | None]) -> Array:
        return np.asarray([np.nan if (v := value(flow)) is None else v for flow in flows], np.float64)

    plain = FlowBatch.plain(
        first,
        start_s=times(lambda flow: flow.start_s),
        src=np.asarray([index[flow.source] for flow in flows]),
        dst=np.asarray([index[flow.to] for flow in flows]),
        size_bytes=np.asarray(
            [units.MIN_FLOW_BYTES if flow.bytes is None else flow.bytes for flow in flows], np.int64
        ),
        deadline_us=times(lambda flow: flow.deadline_us),
        size_known=np.asarray([flow.size_known for flow in flows], np.bool_),
        ideal=ideal,
    )
    return replace(
        plain,
        elapsed_us=times(lambda flow: flow.elapsed_us),
        until_s=times(lambda flow: flow.until_s),
        importance=times(lambda flow: flow.importance),
        importance_share=times(lambda flow: flow.importance_share),
        quench=np.asarray([QUENCH.index(flow.quench) for flow in flows], np.uint8),
        labels=all_or_none([flow.label for flow in flows]),
        controls=all_or_none([flow.control or "" for flow in flows]),
        levels=all_or_none([flow.level or 0 for flow in flows]),
    )


SUFFIXES = (".csv", ".parquet")
"""Names of files that hold such a table. Others hold a list of another simulator."""

_UNITS_NS = {"s": units.NS_PER_S, "ms": units.NS_PER_MS, "us": units.NS_PER_US, "ns": 1}
_TOO_LONG_NS = 10**17
"""Longer than every bound, and short enough for a quantity in text."""
_TIMES = ("time", "deadline")
_NEEDED = ("time", "src", "dst", "bytes")
_SPELT = "time, src, dst, bytes and deadline, where a time may have its unit in its name, as in time_us"

_KINDS: Mapping[str, Kind] = {spec.name: spec.kind for spec in entries(ExplicitFlow)}

Row = tuple[str, Mapping[str, Any]]
"""The place of a row in its file ("line 7"), and its values by column."""


@dataclass(frozen=True)
class FlowTable:
    """A table whose rows are not read yet."""

    name: str
    """The file, for errors."""
    columns: Sequence[str]
    rows: Iterable[Row]
    notice: str = ""
    """How the file was understood, if that is not plain."""

    def workload(self, most: int | None = None) -> ExplicitWorkload:
        """Return the flows of the first `most` rows. Raises FieldError that names the file, the row and the column."""
        try:
            rows = list(islice(self._flows(), most))
        except FieldError as error:
            raise FieldError("workload.trace", f"{self.name}: {error}") from None
        if not rows:
            raise FieldError(
                "workload.trace", f"{self.name}: has no flow; write one row for each flow below the columns"
            )
        if most is not None and len(rows) < most:
            raise FieldError(
                "workload.flows",
                f"must be at most {len(rows)}, the number of flows in {self.name}, not {most}",
            )
        places, flows = zip(*rows, strict=True)
        return ExplicitWorkload(flows, tuple(f"{self.name}, {place}" for place in places))

    def _flows(self) -> Iterator[tuple[str, ExplicitFlow]]:
        """Yield the place and the flow of each row."""
        readers = _readers(self.columns)
        for place, row in self.rows:
            try:
                yield place, _flow_of_row(readers, row)
            except FieldError as error:
                raise FieldError(place, str(error)) from None


Reader = Callable[[str, object], Any]
"""Returns a value of a flow from a cell. Gets the column's name for errors."""
_ATTRIBUTES = {"time": "start_s", "src": "source", "dst": "to", "bytes": "bytes", "deadline": "deadline_us"}


def is_foreign(column: str) -> bool:
    """Return whether a column has another purpose, and is no misspelt column of a flow."""
    what = column.partition("_")[0]
    return what not in _ATTRIBUTES and not guess(what, _ATTRIBUTES) and not guess(column, _ATTRIBUTES)


def _readers(columns: Sequence[str]) -> dict[str, tuple[str, Reader]]:
    """Return for each column of a flow the column's name in the file, and the function that reads its cells."""
    readers: dict[str, tuple[str, Reader]] = {}
    for column in columns:
        what, _, unit = column.partition("_")
        if is_foreign(column):
            continue
        if what not in _ATTRIBUTES or (unit and not (what in _TIMES and unit in _UNITS_NS)):
            raise FieldError(
                shortened(column), f"is not a column here{guess(column, _ATTRIBUTES)}; columns are {_SPELT}"
            )
        if what in readers:
            raise FieldError(shortened(column), f"is the column {what} again, after {readers[what][0]}")
        kind = _KINDS[_ATTRIBUTES[what]]
        if unit:
            readers[what] = column, partial(_time, kind, _UNITS_NS[unit])
        else:
            readers[what] = column, _size if what == "bytes" else kind.read
    missing = [what for what in _NEEDED if what not in readers]
    if missing:
        raise FieldError(missing[0], f"is missing; columns are {_SPELT}")
    return readers


def _time(kind: Kind, scale_ns: int, column: str, value: object) -> Any:
    """Read a plain number of the column's unit."""
    number = _number(value)
    if number is None or number < 0:
        raise FieldError(
            column,
            f"must be a number of at least 0, because the column names the unit, not {shortened(value)}",
        )
    if number * scale_ns >= _TOO_LONG_NS:
        raise kind.refuse(column, value)
    return kind.read(column, f"{round(number * scale_ns)}ns")


def _size(column: str, value: object) -> Any:
    number = _number(value)
    if number is None:
        return _KINDS["bytes"].read(column, value)
    if number != round(number):
        raise FieldError(column, f"must be whole bytes or a size such as 20KB, not {shortened(value)}")
    small = 0 < number < units.MIN_FLOW_BYTES
    return _KINDS["bytes"].read(column, f"{units.MIN_FLOW_BYTES if small else round(number)}B")


def _number(value: object) -> Decimal | None:
    """Return a finite number, also from text; None for anything else."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 30 else None


def _flow_of_row(readers: Mapping[str, tuple[str, Reader]], row: Mapping[str, Any]) -> ExplicitFlow:
    values: dict[str, Any] = {}
    for what, (column, reader) in readers.items():
        value = row.get(column)
        if what != "deadline" or not (value is None or value == "" or value != value):
            values[_ATTRIBUTES[what]] = reader(column, value.strip() if isinstance(value, str) else value)
    if values["source"] == values["to"]:
        raise FieldError(readers["dst"][0], f"must differ from src, {shortened(values['source'])}")
    return ExplicitFlow(**values)


# ── Lists of other simulators ──────────────────────────────────────────────────────────────────────────────────────


_COLUMNS = ("time_ns", "src", "dst", "bytes")
_HTSIM = re.compile(r"([0-9]+)->([0-9]+)((?: [a-z_]+ [0-9.]+)*)")
_COUNT = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class _Flow:
    place: str
    start_ns: float
    source: int
    sink: int
    size_bytes: int


_Read = Callable[[str, str], _Flow | None]
"""Reads a line, by its place and its text. None: the line has no flow."""


def parse_list(name: str, text: str) -> FlowTable | None:
    """Return the flows of a list; None if it has none of these forms. Raises FieldError that names the line."""
    lines = [
        (f"line {number}", line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    form = _form(lines)
    if form is None:
        return None
    title, reader, flow_lines = form
    flows = []
    for place, line in lines[flow_lines]:
        try:
            flow = reader(place, line)
            if flow is not None and not math.isfinite(flow.start_ns):
                raise ValueError
        except (ValueError, IndexError, OverflowError):
            raise FieldError(
                name, f"{place}: {shortened(line)} is no flow of a list as {title} has it"
            ) from None
        if flow is not None:
            flows.append(flow)
    return _table(name, title, flows)


def _form(lines: list[tuple[str, str]]) -> tuple[str, _Read, slice] | None:
    """Return the simulator's name, the reader of its lines, and the lines that it reads."""
    words = [line.split() for _, line in lines[:2]]
    if words[:1] and words[0][0] == "Nodes":
        return "htsim", _htsim, slice(None)
    if len(words) == 2 and len(words[0]) == 1 and _COUNT.fullmatch(words[0][0]) and len(words[1]) == 6:
        return "HPCC's ns-3", _hpcc, slice(1, 1 + int(words[0][0]))
    if words[:1] and len(words[0]) == 4 and all(_COUNT.fullmatch(word) for word in words[0][:3]):
        return "Homa's simulator", _homa, slice(None)
    return None


def _hpcc(place: str, line: str) -> _Flow:
    source, sink, _, _, size, start_s = line.split()
    return _Flow(place, float(start_s) * units.NS_PER_S, int(source), int(sink), int(size))


def _homa(place: str, line: str) -> _Flow:
    source, sink, size, start_s = line.split()
    return _Flow(place, float(start_s) * units.NS_PER_S, int(source), int(sink), int(size))


def _htsim(place: str, line: str) -> _Flow | None:
    if line.split()[0] in ("Nodes", "Connections"):
        return None
    match = _HTSIM.fullmatch(" ".join(line.split()))
    words = match[3].split() if match else []
    values = dict(zip(words[::2], words[1::2], strict=True))
    if match is None or not {"start", "size"} <= values.keys():
        raise FieldError(
            "workload.trace", f"{place}: {shortened(line)} has no start and size; triggers are not read"
        )
    start_ns, size_bytes = float(values["start"]) / units.PS_PER_NS, int(float(values["size"]))
    return _Flow(place, start_ns, int(match[1]), int(match[2]), size_bytes)


def _table(name: str, title: str, flows: list[_Flow]) -> FlowTable:
    earliest_ns = min((flow.start_ns for flow in flows), default=0.0)
    offset_ns = earliest_ns if earliest_ns >= units.NS_PER_S else 0.0
    small = sum(flow.size_bytes < units.MIN_FLOW_BYTES for flow in flows)
    said = [f"read as a list of {title}: {len(flows):,} flows, host 0 is h1"]
    if offset_ns:
        said.append(f"times count from {offset_ns / units.NS_PER_S:g} s on")
    if small:
        said.append(f"{small:,} flows of fewer than {units.MIN_FLOW_BYTES} bytes have {units.MIN_FLOW_BYTES}")

    def row(flow: _Flow) -> Row:
        start_ns, size_bytes = round(flow.start_ns - offset_ns), max(flow.size_bytes, units.MIN_FLOW_BYTES)
        values = (start_ns, f"h{flow.source + 1}", f"h{flow.sink + 1}", size_bytes)
        return flow.place, dict(zip(_COLUMNS, values, strict=True))

    return FlowTable(name, _COLUMNS, map(row, flows), "; ".join(said))
