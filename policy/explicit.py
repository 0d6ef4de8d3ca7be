# SPDX-License-Identifier: Apache-2.0
"""Workloads that name every flow: who sends what to whom, from when on, until when it should be done.

[[workload.flow]]
from = "h2"
to = "h1"
bytes = "10MB"            # or until = "8s": endless, sent until that time of the run
start = "1s"              # of the run; 0 by default
deadline = "4s"           # from the flow's start; an endless flow gets its urgency from it
elapsed = "1s"            # with a deadline: how long before its start the flow had begun, waiting in its program
importance = 2            # against 1 of a standard flow; with importance_share, its share of the precedence
importance_share = 0.5
quench = "kill"           # of a flow that cannot meet its deadline; or "suspend", or "never" (the default)
label = "urgent"          # for samples and plots
"""

from __future__ import annotations

from dataclasses import dataclass

from policy import units
from policy.errors import FieldError
from policy.graph import Topology
from policy.records import size_class
from policy.table import Table
from policy.workload import MIN_FLOW_BYTES, QUENCH, Flow, ideal_fct_us

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
    flow = ExplicitFlow(
        source=table.text("from"),
        to=table.text("to"),
        start_s=start_s,
        bytes=size_bytes,
        until_s=until_s,
        deadline_us=_time_us(table, "deadline"),
        elapsed_us=_time_us(table, "elapsed"),
        importance=importance,
        importance_share=importance_share,
        quench=table.one_of("quench", "never", QUENCH),
        label=table.text("label") if table.has("label") else "",
    )
    table.done()
    _check(table, flow)
    return flow


def _time_us(table: Table, key: str) -> float | None:
    return table.time_ns(key, None) / 1000 if table.has(key) else None


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


def schedule_explicit(workload: ExplicitWorkload, topology: Topology, run_id: str) -> list[Flow]:
    """The flows by start time; a flow's id tells its place in the document."""
    flows = [_scheduled(flow, topology, f"{run_id}/{i}") for i, flow in enumerate(workload.flows)]
    return sorted(flows, key=lambda flow: flow.start_s)


def _scheduled(flow: ExplicitFlow, topology: Topology, id: str) -> Flow:
    size_bytes = MIN_FLOW_BYTES if flow.bytes is None else flow.bytes
    return Flow(
        id=id,
        start_s=flow.start_s,
        src=flow.source,
        dst=flow.to,
        bytes=size_bytes,
        size_class=size_class(size_bytes),
        ideal_us=ideal_fct_us(topology.one_path(flow.source, flow.to), size_bytes),
        deadline_us=flow.deadline_us,
        elapsed_us=flow.elapsed_us,
        until_s=flow.until_s,
        importance=flow.importance,
        importance_share=flow.importance_share,
        quench=flow.quench,
        label=flow.label,
    )
