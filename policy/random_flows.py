# SPDX-License-Identifier: Apache-2.0
"""Random schedules: batches of flows from a seeded generator. The size of a batch does not change the flows.

Each column has a generator of its own, seeded from the caller's, and takes one number for each
flow. So deadlines for more flows, for example, change nothing else in the schedule. Schemes and
settings are compared under the same traffic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sluice.policy.arrivals import Poisson, arrival_rate_per_s
from sluice.policy.columns import Array
from sluice.policy.errors import FieldError
from sluice.policy.graph import Topology
from sluice.policy.ideal import IdealTimes
from sluice.policy.offered_load import check_offered_load
from sluice.policy.patterns import make_pattern
from sluice.policy.sizes import Parts, scaled_bytes
from sluice.policy.workload import BATCH_FLOWS, Deadlines, FlowBatch, TraceWorkload, Workload

_STREAMS = 7


def _streams(rng: np.random.Generator) -> list[np.random.Generator]:
    seed = np.random.SeedSequence(int(rng.integers(2**63)))
    return [np.random.default_rng(child) for child in seed.spawn(_STREAMS)]


class RandomFlows:
    """The flows of a `Workload`, in batches."""

    def __init__(self, workload: Workload, topology: Topology, rng: np.random.Generator) -> None:
        gap, self._size, source, sink, *declared = _streams(rng)
        self._workload = workload
        starts = (0, *(math.ceil(shift.at * workload.flows) for shift in workload.shifts))
        self._phases = list(zip(starts, workload.all_sizes, strict=True))
        self._gap_s = [1 / arrival_rate_per_s(workload, topology, sizes) for _, sizes in self._phases]
        sources = [names for _, sizes in self._phases for names in sizes.sources]
        self._pattern = make_pattern(workload, topology, sources, (source, sink))
        self._arrivals = Poisson(gap, workload.fanin)
        self._declarations = Declarations(workload.deadlines, workload.size_known, declared)
        self._ideal = IdealTimes(topology)

    def batches(self, until_s: float, batch_flows: int) -> Iterator[FlowBatch]:
        step = self._workload.fanin * max(1, batch_flows // self._workload.fanin)
        for first in range(0, self._workload.flows, step):
            batch = self._batch(first, min(step, self._workload.flows - first))
            yield from _before(until_s, batch)
            if batch.start_s[-1] >= until_s:
                return

    def _batch(self, first: int, count: int) -> FlowBatch:
        sizes, parts, gap_s = self._sizes(first, self._size.random(count))
        src, dst = self._pattern.pairs(parts)
        deadline_us, size_known = self._declarations.draw(count)
        return FlowBatch.plain(
            first,
            start_s=self._arrivals.starts_s(gap_s),
            src=src,
            dst=dst,
            size_bytes=scaled_bytes(sizes, self._workload.scale),
            deadlines=self._workload.deadlines,
            deadline_us=deadline_us,
            size_known=size_known,
            ideal=self._ideal,
        )

    def _sizes(self, first: int, uniform: Array) -> tuple[Array, Parts, Array]:
        """Return sizes, their parts (counted through all phases) and mean gaps, phase by phase."""
        bounds = [min(max(start - first, 0), len(uniform)) for start, _ in self._phases]
        sizes, parts, gaps = [], [], []
        before = 0
        for (_, phase), gap_s, (low, high) in zip(
            self._phases, self._gap_s, pairwise([*bounds, len(uniform)]), strict=True
        ):
            size, part = phase.at(uniform[low:high])
            sizes.append(size)
            parts.append(part + before)
            gaps.append(np.full(high - low, gap_s))
            before += len(phase.sources)
        return np.concatenate(sizes), np.concatenate(parts), np.concatenate(gaps)


class TraceFlows:
    """The flows of a `TraceWorkload`, in batches."""

    def __init__(self, workload: TraceWorkload, topology: Topology, rng: np.random.Generator) -> None:
        *_, chance, time, known = _streams(rng)
        names = [host.name for host in topology.hosts]
        to = names.index(workload.to)
        sender = workload.trace.sender[: workload.flows]
        if sender.max() >= len(names) - 1:
            raise FieldError(
                "workload.trace",
                f"has sender {sender.max()}, but there are {len(names) - 1} hosts besides {workload.to}; senders "
                "count from 0, so add hosts to the fabric",
            )
        self._workload, self._to = workload, to
        self._src = sender + (sender >= to)
        self._start_s = np.cumsum(workload.trace.gap_s[: workload.flows])
        self._declarations = Declarations(workload.deadlines, workload.size_known, [chance, time, known])
        self._ideal = IdealTimes(topology)

    def batches(self, until_s: float, batch_flows: int) -> Iterator[FlowBatch]:
        for first in range(0, len(self._src), batch_flows):
            batch = self._batch(slice(first, first + batch_flows))
            yield from _before(until_s, batch)
            if batch.start_s[-1] >= until_s:
                return

    def _batch(self, part: slice) -> FlowBatch:
        src = self._src[part]
        deadline_us, size_known = self._declarations.draw(len(src))
        return FlowBatch.plain(
            part.start,
            start_s=self._start_s[part],
            src=src,
            dst=np.full_like(src, self._to),
            size_bytes=scaled_bytes(
                self._workload.trace.size_bytes[: self._workload.flows][part], self._workload.scale
            ),
            deadlines=self._workload.deadlines,
            deadline_us=deadline_us,
            size_known=size_known,
            ideal=self._ideal,
        )


class Declarations:
    """Draws what programs declare about their flows."""

    def __init__(
        self, deadlines: Deadlines | None, size_known: float, streams: list[np.random.Generator]
    ) -> None:
        self._deadlines, self._size_known = deadlines, size_known
        self._chance, self._time, self._known = streams

    def draw(self, count: int) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return deadlines in us (nan without one), and whether the size is declared: with a
        deadline it always is."""
        deadline_us = np.full(count, np.nan)
        if self._deadlines is not None:
            deadline_us = self._deadlines.draw(self._chance, self._time, count)
        return deadline_us, ~np.isnan(deadline_us) | (self._known.random(count) < self._size_known)


def _before(until_s: float, batch: FlowBatch) -> Iterator[FlowBatch]:
    """Yield the part of a batch that starts before a time, if any."""
    count = int(np.searchsorted(batch.start_s, until_s))
    if count:
        yield batch[:count]


def random_batches(
    workload: Workload | TraceWorkload,
    topology: Topology,
    rng: np.random.Generator,
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """Yield every flow that starts before `until_s`, by start time. Raises FieldError if the
    topology lacks hosts."""
    return _drawn(workload, topology, rng).batches(until_s, batch_flows)


def check_random(workload: Workload | TraceWorkload, topology: Topology) -> None:
    """Raise FieldError if the topology lacks hosts for the workload, or if a link cannot carry its load."""
    _drawn(workload, topology, np.random.default_rng(0))
    if isinstance(workload, Workload):
        check_offered_load(workload, topology)


def _drawn(
    workload: Workload | TraceWorkload, topology: Topology, rng: np.random.Generator
) -> RandomFlows | TraceFlows:
    if isinstance(workload, TraceWorkload):
        return TraceFlows(workload, topology, rng)
    return RandomFlows(workload, topology, rng)
