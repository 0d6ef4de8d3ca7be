# SPDX-License-Identifier: Apache-2.0
"""The flows of a scenario: as columns for the C++ core, their schedule until they have ended, and without end."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from heapq import heapify, heappop, heappush
from itertools import count, islice, repeat

import numpy as np
import numpy.typing as npt

from sluice.policy.figures.metrics import IdealTimes
from sluice.policy.network.graph import Topology
from sluice.policy.units import PS_PER_S, PS_PER_US
from sluice.policy.workload.flows import NO_COLUMNS, FlowBatch
from sluice.policy.workload.listed_flows import ExplicitFlow, ExplicitWorkload, batch_of, first_flows
from sluice.policy.workload.scenario import Scenario, check_hosts, scheduled_batches
from sluice.simulator.taps import Columns

Transports = Mapping[tuple[str, int], int]
"""Congestion control and level of a flow → the number of its settings. Empty name and level 0: 0."""


def fabric_columns(batch: FlowBatch, transports: Transports) -> Columns:
    """A batch as `Fabric.add_flows` takes it: whole picoseconds, 0 for missing values."""
    own = zip(batch.controls or repeat(""), batch.levels or repeat(0), strict=False)
    start_ps = np.rint(batch.start_s * PS_PER_S).astype(np.int64)
    elapsed_ps = _or_zero(batch.elapsed_us * PS_PER_US)
    deadline_ps = np.where(np.isnan(batch.deadline_us), 0, start_ps + _or_zero(batch.deadline_us * PS_PER_US))
    numbers = np.arange(batch.first, batch.first + len(start_ps), dtype=np.uint64)
    return {
        "id": numbers,
        "bytes": batch.bytes.astype(np.uint64),
        "start_ps": start_ps,
        "began_ps": start_ps - elapsed_ps,
        "deadline_ps": deadline_ps,
        "until_ps": _or_zero(batch.until_s * PS_PER_S),
        "source": batch.src.astype(np.uint16),
        "sink": batch.dst.astype(np.uint16),
        "size_known": batch.size_known.astype(np.uint8),
        "on_quench": batch.quench.astype(np.uint8),
        "importance_milli": _or_zero(batch.importance * 1000).astype(np.uint32),
        "importance_share_milli": _or_zero(batch.importance_share * 1000).astype(np.uint32),
        "transport": np.asarray(
            [transports[flow] for flow in islice(own, len(batch))]
            if batch.controls or batch.levels
            else np.zeros(len(batch)),
            np.uint8,
        ),
    }


def _or_zero(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.rint(np.nan_to_num(values)).astype(np.int64)


COLUMNS = tuple(f.name for f in fields(FlowBatch) if f.name not in NO_COLUMNS)


class Ledger:
    """The columns of FlowBatch and the flows' numbers, for flows that were added and not taken."""

    def __init__(self) -> None:
        self.numbers = np.empty(0, np.uint64)
        """Of the flows that are left."""
        self._columns: dict[str, npt.NDArray[np.generic]] = {}
        self._controls: dict[int, str] = {}
        """Of the flows with a congestion control of their own, by flow number."""

    def add(self, batch: FlowBatch) -> None:
        numbers = np.arange(batch.first, batch.first + len(batch.start_s), dtype=np.uint64)
        self.numbers = np.concatenate([self.numbers, numbers])
        self._controls.update(enumerate(batch.controls, start=batch.first))
        for name in COLUMNS:
            column = getattr(batch, name)
            earlier = self._columns.get(name)
            self._columns[name] = column if earlier is None else np.concatenate([earlier, column])

    def take(self, numbers: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of these flows, in this order. The ledger forgets them."""
        places = np.searchsorted(self.numbers, numbers)
        taken = {name: column[places] for name, column in self._columns.items()}
        keep = np.ones(len(self.numbers), bool)
        keep[places] = False
        self.numbers = self.numbers[keep]
        self._columns = {name: column[keep] for name, column in self._columns.items()}
        return taken

    def joined(self, results: Columns) -> Columns:
        """The fabric's results of flows, as `Taps.flows` describes them. The ledger forgets these flows."""
        numbers = results.pop("id")
        controls = np.asarray([self._controls.pop(number, "") for number in numbers.tolist()])
        return {"number": numbers, "control": controls, **results, **self.take(numbers)}

    def before(self, time_s: float) -> dict[str, npt.NDArray[np.generic]]:
        """The numbers and columns of the flows that are left and start before this time, in their order."""
        if not self._columns:
            return {"number": self.numbers, **{name: np.empty(0) for name in COLUMNS}}
        due = np.asarray(self._columns["start_s"], float) < time_s
        return {"number": self.numbers[due], **{name: column[due] for name, column in self._columns.items()}}


def _whole_ps(time_s: float) -> int:
    return round(time_s * PS_PER_S)


class Followers:
    """The flows of a workload in which some start after others. A flow gets its number when it starts."""

    def __init__(
        self, workload: ExplicitWorkload, topology: Topology, rng: np.random.Generator | None
    ) -> None:
        """`rng`: as of `explicit_batches`, for the flows that start at a time of their own."""
        self._index = {host.name: i for i, host in enumerate(topology.hosts)}
        self._ideal = IdealTimes(topology)
        first = first_flows(workload, topology, rng)
        self._due = [(_whole_ps(flow.start_s), i, flow) for i, flow in enumerate(first)]
        heapify(self._due)
        self._order = count(len(self._due))
        self._under_way = Counter(group for flow in workload.flows for group in flow.groups)
        """Flows of each group that have not ended."""
        self._waiting: dict[int, tuple[ExplicitFlow, set[str]]] = {}
        self._followers = defaultdict[str, list[int]](list)
        for i, flow in enumerate(workload.flows):
            if flow.after:
                self._waiting[i] = flow, set(flow.after)
                for group in set(flow.after):
                    self._followers[group].append(i)
        self._groups: dict[int, tuple[str, ...]] = {}
        self._started = 0

    @property
    def next_ps(self) -> int | None:
        """When the next flow starts, as far as that is known; None if no start is known."""
        return self._due[0][0] if self._due else None

    def begin(self, now_ps: int) -> FlowBatch | None:
        """Return the flows that are due, None if there are none."""
        flows: list[ExplicitFlow] = []
        while self._due and self._due[0][0] <= now_ps:
            _, _, flow = heappop(self._due)
            self._groups[self._started + len(flows)] = flow.groups
            flows.append(replace(flow, start_s=now_ps / PS_PER_S))
        if not flows:
            return None
        batch = batch_of(self._started, flows, self._index, self._ideal)
        self._started += len(flows)
        return batch

    def end(self, numbers: Iterable[int], now_ps: int) -> None:
        """These flows have ended now."""
        for number in numbers:
            for group in self._groups.pop(number):
                self._under_way[group] -= 1
                if not self._under_way[group]:
                    self._release(group, now_ps)

    def _release(self, group: str, now_ps: int) -> None:
        for i in self._followers.pop(group, ()):
            flow, groups = self._waiting[i]
            groups.discard(group)
            if not groups:
                del self._waiting[i]
                heappush(self._due, (now_ps + _whole_ps(flow.start_s), next(self._order), flow))

    def never(self, now_ps: int) -> FlowBatch | None:
        """Return the flows that have not started at the end of the run, None if there are none."""
        flows = [flow for _, _, flow in sorted(self._due)]
        flows += [flow for flow, _ in self._waiting.values()]
        self._due = [(now_ps, i, flow) for i, flow in enumerate(flows)]
        self._waiting = {}
        return self.begin(now_ps)


def followers_of(scenario: Scenario, topology: Topology, rng: np.random.Generator) -> Followers | None:
    """Return the flows of a scenario in which some start after others; None if none does. Raises as
    `scheduled_batches` does."""
    workload = scenario.workload
    if not isinstance(workload, ExplicitWorkload) or not workload.has_followers:
        return None
    check_hosts(scenario, topology.host_by_name)
    return Followers(workload, topology, rng if scenario.varies_listed else None)


ROUND_S = 3600.0
"""The schedule begins again after this long."""


class FlowSource:
    """Hands out flows in the order of their starts. Numbers and starts grow over all rounds."""

    def __init__(
        self, scenario: Scenario, topology: Topology, begin_s: float = 0.0, until_s: float = math.inf
    ) -> None:
        """The schedule begins at `begin_s`. It has the flows that start within `until_s` after that."""
        self._scenario, self._topology = scenario, topology
        self._begin_s, self._until_s = begin_s, until_s
        self._batches = self._drawn()
        self._left: FlowBatch | None = None

    def before(self, end_s: float) -> Iterator[FlowBatch]:
        """Yield the flows that start before `end_s` and have not been handed out."""
        while True:
            batch = self._left if self._left is not None else next(self._batches, None)
            if batch is None:
                return
            due = int(np.searchsorted(batch.start_s, end_s))
            self._left = batch[due:] if due < len(batch) else None
            if due:
                yield batch[:due]
            if self._left is not None:
                return

    def _drawn(self) -> Iterator[FlowBatch]:
        rng, number = np.random.default_rng(self._scenario.seed), 0
        for round_number in count():
            past_s, first = round_number * ROUND_S, number
            round_s = min(ROUND_S, self._until_s - past_s)
            offset_s = self._begin_s + past_s
            for batch in (
                scheduled_batches(self._scenario, self._topology, rng, round_s) if round_s > 0 else ()
            ):
                start_s, until_s = batch.start_s + offset_s, batch.until_s + offset_s
                yield replace(batch, first=number, start_s=start_s, until_s=until_s)
                number += len(batch)
            if number == first:
                return
