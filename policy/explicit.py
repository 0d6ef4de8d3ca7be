# SPDX-License-Identifier: Apache-2.0
"""Workloads that list every flow: sender, receiver, size, start and deadline.

[[workload.flow]]
from = "h2"
to = "h1"
bytes = "10MB"            # or until = "8s": an endless flow, which the host sends until 8 s of the run
start = "1s"
deadline = "4s"
label = "urgent"
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sluice.policy.columns import Array
from sluice.policy.entries import entry, read
from sluice.policy.errors import FieldError, unknown_key
from sluice.policy.framing import MAX_FLOW_BYTES, MIN_FLOW_BYTES
from sluice.policy.graph import Topology
from sluice.policy.ideal import IdealTimes
from sluice.policy.kinds import Choice, Duration, Flag, Number, Size, Text
from sluice.policy.schedule import QUENCH
from sluice.policy.units import NS_PER_S
from sluice.policy.workload import BATCH_FLOWS, FlowBatch

MAX_IMPORTANCE = 8.0
"""The kernel accepts no more (dataplane/include/sluice.h)."""

_HOST = Text(longest=64, what="the name of a host")
_LONGEST_NS = 86_400 * NS_PER_S
_START = Duration(0, _LONGEST_NS, to="s", whole=False)
_TIME_US = Duration(1, _LONGEST_NS, to="us", whole=False)


@dataclass(frozen=True)
class ExplicitFlow:
    """A [[workload.flow]] table. Times count from the start of the run; the deadline counts from the flow's start."""

    source: str = entry(_HOST, "Sending host.", key="from")
    to: str = entry(_HOST, "Receiving host.")
    start_s: float = entry(_START, "Start of the flow.", key="start", default=0.0)
    bytes: int | None = entry(Size(MIN_FLOW_BYTES, MAX_FLOW_BYTES), "Size of the flow.", default=None)
    until_s: float | None = entry(
        _START, "Instead of bytes: the host sends an endless flow until then.", key="until", default=None
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
    label: str = entry(Text(longest=64), "Name for samples and plots.", default="")

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
    """The place of each flow in its file, if the flows come from a trace (policy/flow_tables.py)."""

    def place(self, index: int, key: str) -> tuple[str, str]:
        """Return the key of the scenario that holds a value of a flow, and the value's place within its file."""
        if not self.places:
            return f"workload.flow[{index}].{key}", ""
        return "workload.trace", f"{self.places[index]}: "


def explicit_workload(table: Mapping[str, object]) -> ExplicitWorkload:
    """Read a [workload] with [[workload.flow]] tables. Raises FieldError that names the key."""
    for key in table:
        if key != "flow":
            raise unknown_key(f"workload.{key}", str(key), ("flow",))
    entries = table["flow"]
    if not isinstance(entries, list) or not entries:
        raise FieldError("workload.flow", "must be a list of at least one table: write [[workload.flow]]")
    return ExplicitWorkload(tuple(_flow(f"workload.flow[{i}]", given) for i, given in enumerate(entries)))


def _flow(where: str, table: object) -> ExplicitFlow:
    flow = read(ExplicitFlow, table, where)

    def refuse(key: str, problem: str) -> FieldError:
        return FieldError(f"{where}.{key}", problem)

    if (flow.bytes is None) == (flow.until_s is None):
        raise refuse("bytes", 'give either bytes, or until = "8s" for an endless flow')
    if flow.until_s is not None and flow.until_s <= flow.start_s:
        raise refuse("until", "must be later than start")
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
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """The flows that start before `until_s`, by start time. Flows with one start time keep the document's order."""
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
