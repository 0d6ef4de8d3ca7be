# SPDX-License-Identifier: Apache-2.0
"""Workloads: start, sender, receiver, size and deadline of every flow.

A seeded generator draws a schedule in batches of columns. So a million flows take a second, and
the memory of one batch. The testbed's agents run the same flows (as ScheduledFlow) as the
simulator (as columns).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy import controls
from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import Array, IdealTimes
from sluice.policy.network.graph import Topology
from sluice.policy.schema.entries import entry
from sluice.policy.schema.field_kinds import MAX_QUEUES
from sluice.policy.schema.kinds import Choice, Duration, Number, Text, Whole
from sluice.policy.units import NS_PER_S
from sluice.policy.wire.records import QUENCH, ScheduledFlow, size_class
from sluice.policy.workload.sizes import Sizes

BATCH_FLOWS = 4096

Indices = npt.NDArray[np.uint16]

_TIME_US = Duration(0, 3600 * NS_PER_S, to="us", whole=False)


NO_COLUMNS = ("first", "labels", "controls", "levels")
"""Fields of FlowBatch that are no numpy arrays."""


def all_or_none(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values, or nothing if all are empty or 0."""
    return tuple(values) if any(values) else ()


@dataclass(frozen=True)
class FlowBatch:
    """Consecutive flows as columns of equal length, by start time. nan means that a flow has no such value."""

    first: int
    """Number of the first flow in the run, from 0."""
    start_s: Array
    """Seconds from the start of the run."""
    src: Indices
    """Indices in `topology.hosts`."""
    dst: Indices
    bytes: npt.NDArray[np.int64]
    """For an endless flow, the minimum that it sends."""
    deadline_us: Array
    """Deadline from the flow's start."""
    size_known: npt.NDArray[np.bool_]
    """Whether the program declares the flow's size."""
    ideal_us: Array
    elapsed_us: Array
    """How long the flow waited in its program before its start."""
    until_s: Array
    """End of an endless flow, in seconds from the start of the run."""
    importance: Array
    importance_share: Array
    quench: npt.NDArray[np.uint8]
    """Indices in QUENCH."""
    labels: tuple[str, ...] = ()
    """One label for each flow, or none at all."""
    controls: tuple[str, ...] = ()
    """The name of each flow's congestion control, empty for the scheme's; or none at all."""
    levels: tuple[int, ...] = ()
    """The level of each flow, 0 for the last one; or none at all."""

    def __len__(self) -> int:
        return len(self.start_s)

    def __getitem__(self, part: slice) -> FlowBatch:
        """Return a slice of the flows."""
        start = range(len(self))[part].start
        columns = {f.name: getattr(self, f.name)[part] for f in fields(self) if f.name != "first"}
        return FlowBatch(first=self.first + start, **columns)

    @classmethod
    def joined(cls, first: int, parts: Sequence[FlowBatch]) -> FlowBatch:
        """Return the flows of all parts by start time."""
        order = np.argsort(np.concatenate([part.start_s for part in parts]), kind="stable")
        columns: dict[str, Any] = {"first": first}
        for name in (f.name for f in fields(cls) if f.name != "first"):
            if name in NO_COLUMNS:
                words = [word for part in parts for word in getattr(part, name) or ("",) * len(part)]
                columns[name] = all_or_none([words[i] for i in order])
            else:
                columns[name] = np.concatenate([getattr(part, name) for part in parts])[order]
        return cls(**columns)

    @classmethod
    def plain(
        cls,
        first: int,
        *,
        start_s: Array,
        src: npt.NDArray[Any],
        dst: npt.NDArray[Any],
        size_bytes: npt.NDArray[np.int64],
        deadline_us: Array,
        size_known: npt.NDArray[np.bool_],
        ideal: IdealTimes,
        deadlines: Deadlines | None = None,
    ) -> FlowBatch:
        """Return flows whose programs declare at most a deadline and the size. `deadline_us` is as drawn."""
        nothing = np.full(len(start_s), np.nan)
        ideal_us = ideal.of(src, dst, size_bytes)
        if deadlines is not None:
            deadline_us = np.maximum(deadline_us, deadlines.slack * ideal_us)  # nan stays nan
        return cls(
            first=first,
            start_s=start_s,
            src=src.astype(np.uint16),
            dst=dst.astype(np.uint16),
            bytes=size_bytes,
            deadline_us=deadline_us,
            size_known=size_known,
            ideal_us=ideal_us,
            elapsed_us=nothing,
            until_s=nothing,
            importance=nothing,
            importance_share=nothing,
            quench=np.zeros(len(start_s), np.uint8),
        )


@dataclass(frozen=True)
class Deadlines:
    """The [deadlines] table: deadlines from the start of the flow, for a share of the flows."""

    share: float = entry(Number(0, 1), "Share of the flows that have a deadline.")
    distribution: str = entry(
        Choice(("uniform", "exponential")),
        "uniform: between min and max. exponential: with this mean, and at least min.",
        default="uniform",
    )
    min_us: float = entry(_TIME_US, "Least deadline.", key="min", default=5_000.0)
    max_us: float = entry(_TIME_US, "Greatest deadline (uniform).", key="max", default=25_000.0)
    mean_us: float = entry(_TIME_US, "Mean deadline (exponential).", key="mean", default=15_000.0)
    slack: float = entry(
        Number(0, 1000),
        "No deadline is shorter than this multiple of the flow's ideal FCT. 0: sizes do not matter.",
        default=0.0,
    )

    def draw(self, chance: np.random.Generator, time: np.random.Generator, count: int) -> Array:
        """Return microseconds; nan without a deadline. `chance` decides which flows have one,
        `time` how long it is."""
        given = chance.random(count) < self.share
        if self.distribution == "exponential":
            deadline_us = np.maximum(self.min_us, self.mean_us * time.standard_exponential(count))
        else:
            deadline_us = self.min_us + (self.max_us - self.min_us) * time.random(count)
        return np.where(given, deadline_us, np.nan)


@dataclass(frozen=True)
class Shift:
    """Other sizes from some point of a run on."""

    at: float
    """Fraction of the flows after which these sizes replace those before."""
    sizes: Sizes


LEVEL: Any = entry(
    Whole(1, MAX_QUEUES),
    "Level that the program of these flows chooses, in schemes with levels; 1 is served first. By default the last.",
    default=None,
)
PATTERN = Choice(("all-to-all", "many-to-one", "permutation", "incast"))
FLOWS = Whole(1, 10**9)
MAX_LOAD = 0.99


@dataclass(frozen=True)
class Load(Number):
    """Part of a link's rate."""

    def read(self, where: str, value: object) -> float:
        if type(value) in (int, float) and value >= 1:  # type: ignore[operator]
            raise FieldError(
                where,
                f"must be below 1, not {value!r}: on an overloaded link, queues grow without limit; "
                f"give at most {MAX_LOAD}, or interarrival for a burst",
            )
        return super().read(where, value)


@dataclass(frozen=True)
class CommonKeys:
    """The common keys of random flows and incasts."""

    flows: int = entry(FLOWS, "Flows of the run.")
    pattern: str = entry(PATTERN, "Which hosts send to which.", default="all-to-all")
    to: str | None = entry(
        Text(longest=64, what="the name of a host"),
        "The one receiver. many-to-one needs it; with incast, any host asks without it.",
        default=None,
    )
    load: float | None = entry(
        Load(0.001, MAX_LOAD),
        "Load of the host links, frame overhead included; with many-to-one, of the receiver's link.",
        default=None,
    )
    interarrival_s: float | None = entry(
        Duration(1, 3600 * NS_PER_S, to="s", whole=False),
        "Instead of load: mean time between two starts; with incast, between two requests.",
        key="interarrival",
        default=None,
    )
    scale: float = entry(
        Number(1e-6, 1e6), "Factor of all sizes, and of the limits of the size classes.", default=1.0
    )
    size_known: float = entry(
        Number(0, 1), "Share of the flows without deadline whose programs declare the size.", default=0.0
    )


@dataclass(frozen=True, kw_only=True)
class Workload(CommonKeys):
    """Random flows, as a scenario's [workload] and [deadlines] define them."""

    sizes: Sizes
    shifts: tuple[Shift, ...] = ()
    """Other sizes from some points of the run on, by `at`."""
    deadlines: Deadlines | None = None
    """Flows with a deadline always declare their sizes."""
    fanin: int = 1
    """Incast: number of senders that answer one request."""
    label: str = ""
    """Incast: the answers to request n have the label LABEL/n; empty: none."""
    incast: Workload | None = None
    """Requests besides these flows. Their load is part of `load`."""

    @property
    def own_load(self) -> float | None:
        """The load of these flows alone."""
        if self.load is None or self.incast is None or self.incast.load is None:
            return self.load
        return self.load - self.incast.load

    @property
    def all_sizes(self) -> tuple[Sizes, ...]:
        """The sizes of each phase of the run: before the first shift, and after each one."""
        return (self.sizes, *(shift.sizes for shift in self.shifts))

    @property
    def controls(self) -> frozenset[str]:
        """Names of the congestion controls that parts of the flows ask for."""
        groups = (group for sizes in self.all_sizes for group in sizes.groups)
        return frozenset(group.control for group in groups if group.control)


def flows_of(
    batches: Iterable[FlowBatch], topology: Topology, run_id: str, size_scale: float = 1.0
) -> list[ScheduledFlow]:
    """Return the flows of batches as objects. `size_scale` scales the limits of the size classes."""
    names = [host.name for host in topology.hosts]
    return [flow for batch in batches for flow in _flows(batch, names, run_id, size_scale)]


def _flows(batch: FlowBatch, names: Sequence[str], run_id: str, size_scale: float) -> list[ScheduledFlow]:
    columns = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name not in NO_COLUMNS}
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    flows = []
    for i, row in enumerate(dict(zip(columns, map(_number_or_none, value), strict=True)) for value in values):
        row |= {"src": names[row["src"]], "dst": names[row["dst"]], "quench": QUENCH[row["quench"]]}
        row["label"] = batch.labels[i] if batch.labels else ""
        control = batch.controls[i] if batch.controls else ""
        row["level"] = batch.levels[i] or None if batch.levels else None
        row["congestion_control"] = controls.selectable()[control].kernel_name if control else None
        size = size_class(row["bytes"], size_scale)
        flows.append(ScheduledFlow(f"{run_id}/{batch.first + i}", size_class=size, **row))
    return flows


def _number_or_none(value: Any) -> Any:
    return None if value != value else value
