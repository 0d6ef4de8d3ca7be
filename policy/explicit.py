# SPDX-License-Identifier: Apache-2.0
"""Workloads that name every flow: who sends what to whom, from when on, until when it should be done.

[[workload.flow]]
from = "h2"
to = "h1"
bytes = "10MB"            # or until = "8s": endless, sent until that time of the run
start = "1s"              # of the run; 0 by default
deadline = "4s"           # from the flow's start; an endless flow gets its urgency from it
size_known = true         # whether its program tells how much it sends; with a deadline it always does
elapsed = "1s"            # with a deadline: how long before its start the flow had begun, waiting in its program
importance = 2            # against 1 of a standard flow; with importance_share, its share of the precedence
importance_share = 0.5
quench = "kill"           # of a flow that cannot meet its deadline; or "suspend", or "never" (the default)
label = "urgent"          # for samples and plots
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from policy import units
from policy.errors import FieldError
from policy.framing import Array
from policy.graph import Topology
from policy.ideal import IdealTimes
from policy.table import Table
from policy.workload import BATCH_FLOWS, MIN_FLOW_BYTES, QUENCH, FlowBatch

MAX_IMPORTANCE = 8.0
"""What the kernel takes (dataplane/include/sluice.h)."""
MAX_LABEL = 64


@dataclass(frozen=True)
class ExplicitFlow:
    """One [[workload.flow]]. Times in seconds from the start of the run, but for the deadline."""

    source: str
    to: str
    start_s: float
    bytes: int | None
    """None: endless, until `until_s`."""
    until_s: float | None
    deadline_us: float | None
    """From the flow's start."""
    elapsed_us: float | None
    """How long before its start the flow had begun."""
    importance: float | None
    importance_share: float | None
    quench: str
    label: str
    size_known: bool = False


@dataclass(frozen=True)
class ExplicitWorkload:
    flows: tuple[ExplicitFlow, ...]


def explicit_workload(table: Table) -> ExplicitWorkload:
    """Read a [workload] that has `flow` tables. FieldError names the key."""
    entries = table.need("flow")
    if not isinstance(entries, list) or not entries:
        raise FieldError(table.name("flow"), "must be a list of tables: [[workload.flow]]")
    flows = tuple(_flow(Table(f"{table.name('flow')}[{i}]", entry)) for i, entry in enumerate(entries))
    table.done()
    return ExplicitWorkload(flows)


def _flow(table: Table) -> ExplicitFlow:
    start_s = table.time_ns("start", "0s") / 1e9
    size_bytes, until_s = _extent(table, start_s)
    importance, importance_share = _importance(table)
    deadline_us = _time_us(table, "deadline")
    flow = ExplicitFlow(
        source=table.text("from"),
        to=table.text("to"),
        start_s=start_s,
        bytes=size_bytes,
        until_s=until_s,
        deadline_us=deadline_us,
        elapsed_us=_time_us(table, "elapsed"),
        importance=importance,
        importance_share=importance_share,
        quench=table.one_of("quench", "never", QUENCH),
        label=table.text("label") if table.has("label") else "",
        size_known=_size_known(table, size_bytes, deadline_us),
    )
    table.done()
    _check(table, flow)
    return flow


def _time_us(table: Table, key: str) -> float | None:
    return table.time_ns(key, None) / 1000 if table.has(key) else None


def _size_known(table: Table, flow_bytes: int | None, deadline_us: float | None) -> bool:
    """Told by default where there is a deadline: a rate that is just enough follows from both."""
    value = table.take("size_known", flow_bytes is not None and deadline_us is not None)
    if not isinstance(value, bool):
        raise FieldError(table.name("size_known"), f"must be true or false, not {value!r}")
    if value and flow_bytes is None:
        raise FieldError(table.name("size_known"), "is for flows with bytes: an endless flow has no size")
    if not value and flow_bytes is not None and deadline_us is not None:
        raise FieldError(
            table.name("size_known"), "cannot be false with a deadline: such flows tell their size"
        )
    return value


def _extent(table: Table, start_s: float) -> tuple[int | None, float | None]:
    """Bytes or the time until which an endless flow is sent."""
    if table.has("bytes") == table.has("until"):
        raise FieldError(table.name("bytes"), 'give either bytes, or until = "8s" for an endless flow')
    if table.has("until"):
        until_s = table.time_ns("until", None) / 1e9
        if until_s <= start_s:
            raise FieldError(table.name("until"), "must lie after start")
        return None, until_s
    size_bytes = units.size_bytes(table.name("bytes"), table.need("bytes"))
    if size_bytes < MIN_FLOW_BYTES:
        raise FieldError(table.name("bytes"), f"must be at least {MIN_FLOW_BYTES} B")
    return size_bytes, None


def _importance(table: Table) -> tuple[float | None, float | None]:
    if table.has("importance") != table.has("importance_share"):
        raise FieldError(table.name("importance_share"), "goes with importance: give both or neither")
    if not table.has("importance"):
        return None, None
    importance = table.number("importance", None, 0.001, MAX_IMPORTANCE)
    return importance, table.number("importance_share", None, 0.0, 1.0)


def _check(table: Table, flow: ExplicitFlow) -> None:
    if flow.source == flow.to:
        raise FieldError(table.name("to"), "must be another host than from")
    if flow.deadline_us is not None and flow.deadline_us <= 0:
        raise FieldError(table.name("deadline"), "must be above zero")
    if flow.elapsed_us is not None and flow.deadline_us is None:
        raise FieldError(table.name("elapsed"), "is for flows with a deadline only")
    if flow.quench != "never" and (flow.deadline_us is None or flow.until_s is not None):
        raise FieldError(table.name("quench"), "is for flows with bytes and a deadline only")
    if len(flow.label) > MAX_LABEL:
        raise FieldError(table.name("label"), f"must have at most {MAX_LABEL} characters")


def explicit_batches(
    workload: ExplicitWorkload,
    topology: Topology,
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """The flows that start before `until_s`, by start time; those that start at once in the document's order."""
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    ideal = IdealTimes(topology)
    flows = sorted((f for f in workload.flows if f.start_s < until_s), key=lambda flow: flow.start_s)
    for first in range(0, len(flows), batch_flows):
        yield _batch(first, flows[first : first + batch_flows], index, ideal)


def _batch(
    first: int, flows: Sequence[ExplicitFlow], index: Mapping[str, int], ideal: IdealTimes
) -> FlowBatch:
    def times(value: Callable[[ExplicitFlow], float | None]) -> Array:
        return np.asarray([np.nan if (v := value(flow)) is None else v for flow in flows], np.float64)

    plain = FlowBatch.plain(
        first,
        start_s=times(lambda flow: flow.start_s),
        src=np.asarray([index[flow.source] for flow in flows]),
        dst=np.asarray([index[flow.to] for flow in flows]),
        size_bytes=np.asarray(
            [MIN_FLOW_BYTES if flow.bytes is None else flow.bytes for flow in flows], np.int64
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
        labels=tuple(flow.label for flow in flows),
    )
