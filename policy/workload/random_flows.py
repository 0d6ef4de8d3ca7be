# SPDX-License-Identifier: Apache-2.0
"""Random schedules: batches of flows from a seeded generator. The size of a batch does not change the flows.

Each column has a generator of its own, seeded from the caller's, and takes one number for each
flow. So deadlines for more flows, for example, change nothing else in the schedule. Schemes and
settings are compared under the same traffic.

Start times are a Poisson process whose rate follows from the load of the links. A pattern chooses sender and receiver
of every flow, as indices in `topology.hosts`. It takes exactly one uniform number for each flow from each generator, so
a schedule does not depend on the size of its batches.

A workload with `load` must not overload a link: queues would grow during the whole run, and the figures would depend on
its length. `interarrival`, listed flows and background flows are not checked, because they may overload links
on purpose.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import Array, IdealTimes, edge_ports
from sluice.policy.network.graph import Topology
from sluice.policy.workload.flows import BATCH_FLOWS, FlowBatch, Workload, all_or_none
from sluice.policy.workload.sizes import Parts, Sizes, mean_wire_bytes, scaled_bytes


def arrival_rate_per_s(workload: Workload, topology: Topology, sizes: Sizes) -> float:
    """Starts per second in the whole network; for an incast, requests per second.

    The load, if the workload has one, is that of the receiver's link. Without a single receiver, every host's link
    has this load on average. Loads include the headers of every segment.
    """
    load = workload.own_load
    if load is None:
        assert workload.interarrival_s is not None
        return 1 / workload.interarrival_s
    names = [workload.to] if workload.to else [host.name for host in topology.hosts]
    capacity_bps = sum(port.rate_bps for port in edge_ports(topology) if port.peer in names)
    mean_bytes = float(mean_wire_bytes(sizes, workload.scale).sum()) * workload.fanin
    return load * capacity_bps / (8 * mean_bytes)


class Poisson:
    """Start times of consecutive flows. Groups of `together` flows start at the same time."""

    def __init__(self, rng: np.random.Generator, together: int = 1) -> None:
        self._rng, self._together, self._now_s = rng, together, 0.0

    def starts_s(self, mean_gap_s: Array) -> Array:
        """Start times of the next flows.

        `mean_gap_s`: for each flow, the mean time since the start before. Only the last call may end within a group.
        """
        groups = mean_gap_s[:: self._together]
        gaps_s = self._rng.standard_exponential(len(groups)) * groups
        gaps_s[0] += self._now_s
        starts_s = np.cumsum(gaps_s)
        self._now_s = float(starts_s[-1])
        return np.repeat(starts_s, self._together)[: len(mean_gap_s)]


Hosts = npt.NDArray[np.int64]


Pairs = Callable[[Parts], tuple[Hosts, Hosts]]
"""Returns senders and receivers of the next flows, by the part of the sizes that each flow belongs to."""


def make_pattern(
    workload: Workload,
    topology: Topology,
    sources: Sequence[Sequence[str]],
    streams: Sequence[np.random.Generator],
) -> Pairs:
    """Return the pattern of a workload. Raises FieldError if the topology lacks hosts for it.

    `sources`: for each part of the sizes, the hosts that send it; an empty list means all hosts. `streams`: two
    generators.
    """
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    if len(index) < 2:
        raise FieldError("fabric", f"has {len(index)} host, but traffic needs at least 2: add hosts")
    to = index[workload.to] if workload.to is not None else None
    if workload.pattern == "incast":
        return _incast(len(index), to, workload.fanin, *streams)
    source, sink = streams
    receivers: Callable[[Hosts], Hosts]
    if to is not None:
        receivers = partial(np.full_like, fill_value=to)
    elif workload.pattern == "permutation":
        receivers = derangement(len(index), sink).__getitem__
    else:
        receivers = partial(_others, len(index), sink)
    of_part = [[index[name] for name in names] or range(len(index)) for names in sources]
    return _senders([[host for host in hosts if host != to] for hosts in of_part], source, receivers)


def _others(hosts: int, sink: np.random.Generator, src: Hosts) -> Hosts:
    """For each sender one of the other hosts, with equal probability."""
    other = (sink.random(len(src)) * (hosts - 1)).astype(np.int64)
    return other + (other >= src)


def _senders(
    hosts: Sequence[Sequence[int]], rng: np.random.Generator, receivers: Callable[[Hosts], Hosts]
) -> Pairs:
    """Senders that are independent of each other: for each flow one of its part's hosts, with equal probability."""
    if not all(hosts):
        raise FieldError(
            "workload.mix", "has a part whose only sender is the receiver: name another host in from"
        )
    count = np.asarray([len(part) for part in hosts])
    table = np.zeros((len(hosts), max(count)), np.int64)
    for row, part in zip(table, hosts, strict=True):
        row[: len(part)] = part

    def pairs(parts: Parts) -> tuple[Hosts, Hosts]:
        place = (rng.random(len(parts)) * count[parts]).astype(np.int64)
        src: Hosts = table[parts, place]
        return src, receivers(src)

    return pairs


def _incast(
    hosts: int, to: int | None, fanin: int, source: np.random.Generator, sink: np.random.Generator
) -> Pairs:
    """Requests: `fanin` different hosts answer one receiver at the same time, so flows come in groups of `fanin`."""
    if fanin > hosts - 1:
        raise FieldError(
            "workload.fanin",
            f"must be at most {hosts - 1}, the number of hosts without the receiver, not {fanin}",
        )

    def pairs(parts: Parts) -> tuple[Hosts, Hosts]:
        requests = -(-len(parts) // fanin)
        receiver = (sink.random(requests) * hosts).astype(np.int64)
        if to is not None:
            receiver[:] = to
        others = distinct(source.random((requests, fanin)), hosts - 1)
        src = others + (others >= receiver[:, None])
        return src.ravel()[: len(parts)], np.repeat(receiver, fanin)[: len(parts)]

    return pairs


def distinct(uniform: Array, below: int) -> Hosts:
    """For each row, one different whole number below `below` for each column. All sets have equal probability.

    Source: R. W. Floyd's sampling (Bentley, Communications of the ACM 30(9), 1987), column by column for all rows.
    """
    rows, columns = uniform.shape
    chosen = np.empty((rows, columns), np.int64)
    for column in range(columns):
        last = below - columns + column
        candidate = (uniform[:, column] * (last + 1)).astype(np.int64)
        taken = (chosen[:, :column] == candidate[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, candidate)
    return chosen


def derangement(count: int, rng: np.random.Generator) -> Hosts:
    """A random permutation without fixed points, all with equal probability. It takes e tries on average."""
    while True:
        order = rng.permutation(count)
        if (order != np.arange(count)).all():
            return order


def check_offered_load(workload: Workload, topology: Topology) -> None:
    """Raise FieldError if the workload's load exceeds the rate of some link of the topology."""
    if workload.load is None:
        return
    for sizes in workload.all_sizes:
        loads = offered_loads(workload, topology, sizes)
        link = max(loads, key=loads.__getitem__)
        if loads[link] >= 1:
            raise FieldError(
                "workload.load",
                f"{workload.load:g} offers {link} {loads[link]:.3g} times its rate: give at most "
                f"{0.99 * workload.load / loads[link]:.3g}, more senders, a faster core, or interarrival for a burst",
            )


def offered_loads(workload: Workload, topology: Topology, sizes: Sizes) -> dict[str, float]:
    """Mean offered load of each link as a share of its rate, by the link's name ("h3's uplink", "s1:2")."""
    bps = 8 * traffic_matrix(workload, topology, sizes) * arrival_rate_per_s(workload, topology, sizes)
    edge = edge_ports(topology)
    loads = {f"{port.peer}'s uplink": float(bps[i].sum()) / port.rate_bps for i, port in enumerate(edge)}
    loads |= {port.id: float(bps[:, i].sum()) / port.rate_bps for i, port in enumerate(edge)}
    loads |= _core_loads(topology, bps)
    if workload.incast is not None:
        answers = offered_loads(workload.incast, topology, workload.incast.sizes)
        loads = {link: load + answers[link] for link, load in loads.items()}
    return loads


def traffic_matrix(workload: Workload, topology: Topology, sizes: Sizes) -> Array:
    """Mean wire bytes of one start, by sender and receiver; for an incast, of one request.

    For the pattern "permutation", it is the mean over all permutations.
    """
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    all_hosts = list(index.values())
    matrix = np.zeros((len(index), len(index)))
    for group, mean_bytes in zip(sizes.groups, mean_wire_bytes(sizes, workload.scale), strict=True):
        sources = [index[name] for name in group.sources] or all_hosts
        sinks = all_hosts if workload.to is None else [index[workload.to]]
        share = np.zeros_like(matrix)
        share[np.ix_(sources, sinks)] = 1
        np.fill_diagonal(share, 0)
        matrix += mean_bytes * workload.fanin * share / share.sum()
    return matrix


def _core_loads(topology: Topology, bps: Array) -> dict[str, float]:
    """Loads of the links between switches. Equal-cost links have equal parts of the traffic."""
    edge = edge_ports(topology)
    switches = list(dict.fromkeys(port.switch for port in edge))
    of_host = np.asarray([switches.index(port.switch) for port in edge])
    between = np.zeros((len(switches), len(switches)))
    np.add.at(between, (of_host[:, None], of_host[None, :]), bps)
    loads = {port.id: 0.0 for port in topology.ports if not port.edge}
    for column, name in enumerate(switches):
        demand_bps = dict(zip(switches, between[:, column], strict=True))
        _spread(topology, topology.distances_to_switch(name), demand_bps, loads)
    return loads


def _spread(
    topology: Topology, distance: Mapping[str, int], demand_bps: dict[str, float], loads: dict[str, float]
) -> None:
    """Add the traffic from all switches towards one switch to `loads`, the farthest switch first."""
    for name in sorted(distance, key=distance.__getitem__, reverse=True):
        nearer = [p for p in topology.ports_of[name] if distance.get(p.peer) == distance[name] - 1]
        for port in nearer:
            part_bps = demand_bps.get(name, 0.0) / len(nearer)
            loads[port.id] += part_bps / port.rate_bps
            demand_bps[port.peer] = demand_bps.get(port.peer, 0.0) + part_bps


_STREAMS = 7


class RandomFlows:
    """The flows of a `Workload`, in batches."""

    def __init__(self, workload: Workload, topology: Topology, rng: np.random.Generator) -> None:
        self._workload, self._ideal = workload, IdealTimes(topology)
        seed = np.random.SeedSequence(int(rng.integers(2**63)))
        streams = map(np.random.default_rng, seed.spawn(_STREAMS))
        gap, self._size, source, sink, self._chance, self._time, self._known = streams
        starts = (0, *(math.ceil(shift.at * workload.flows) for shift in workload.shifts))
        self._phases = list(zip(starts, workload.all_sizes, strict=True))
        self._gap_s = [1 / arrival_rate_per_s(workload, topology, sizes) for _, sizes in self._phases]
        self._groups = [group for _, sizes in self._phases for group in sizes.groups]
        sources = [group.sources for group in self._groups]
        self._pairs = make_pattern(workload, topology, sources, (source, sink))
        self._arrivals = Poisson(gap, workload.fanin)

    def batch(self, first: int, count: int) -> FlowBatch:
        """The next flows, of which the first has this number. With a deadline, the size is always declared."""
        sizes, parts, gap_s = self._sizes(first, self._size.random(count))
        src, dst = self._pairs(parts)
        deadlines = self._workload.deadlines
        deadline_us = deadlines.draw(self._chance, self._time, count) if deadlines else np.full(count, np.nan)
        is_known = self._known.random(count) < self._workload.size_known
        flows = FlowBatch.plain(
            first,
            start_s=self._arrivals.starts_s(gap_s),
            src=src,
            dst=dst,
            size_bytes=scaled_bytes(sizes, self._workload.scale),
            deadlines=deadlines,
            deadline_us=deadline_us,
            size_known=~np.isnan(deadline_us) | is_known,
            ideal=self._ideal,
        )
        if label := self._workload.label:
            numbers = 1 + np.arange(first, first + count) // self._workload.fanin
            flows = replace(flows, labels=tuple(f"{label}/{number}" for number in numbers))
        if not any(group.control or group.level for group in self._groups):
            return flows
        groups = [self._groups[part] for part in parts.tolist()]
        return replace(
            flows,
            controls=all_or_none([group.control for group in groups]),
            levels=all_or_none([group.level for group in groups]),
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
            before += len(phase.groups)
        return np.concatenate(sizes), np.concatenate(parts), np.concatenate(gaps)


def random_batches(
    workload: Workload,
    topology: Topology,
    rng: np.random.Generator,
    until_s: float = math.inf,
    batch_flows: int = BATCH_FLOWS,
) -> Iterator[FlowBatch]:
    """Yield every flow that starts before `until_s`, by start time. Raises FieldError if the
    topology lacks hosts."""
    batches = _batches(RandomFlows(workload, topology, rng), workload, until_s, batch_flows)
    if workload.incast is None:
        return batches
    answers = RandomFlows(workload.incast, topology, rng)
    return _merged(batches, _batches(answers, workload.incast, until_s, batch_flows))


def _merged(batches: Iterator[FlowBatch], others: Iterator[FlowBatch]) -> Iterator[FlowBatch]:
    """Yield the flows of both by start time, until the last of `batches` starts."""
    first, left = 0, next(others, None)
    for batch in batches:
        end_s, parts = float(batch.start_s[-1]), [batch]
        while left is not None and left.start_s[0] <= end_s:
            due = int(np.searchsorted(left.start_s, end_s, side="right"))
            parts.append(left[:due])
            left = left[due:] if due < len(left) else next(others, None)
        yield FlowBatch.joined(first, parts)
        first += sum(map(len, parts))


def _batches(flows: RandomFlows, workload: Workload, until_s: float, batch_flows: int) -> Iterator[FlowBatch]:
    step = workload.fanin * max(1, batch_flows // workload.fanin)
    for first in range(0, workload.flows, step):
        batch = flows.batch(first, min(step, workload.flows - first))
        due = int(np.searchsorted(batch.start_s, until_s))
        if due:
            yield batch[:due]
        if due < len(batch):
            return


def check_random(workload: Workload, topology: Topology) -> None:
    """Raise FieldError if the topology lacks hosts for the workload, or if a link cannot carry its load."""
    rng = np.random.default_rng(0)
    RandomFlows(workload, topology, rng)
    if workload.incast is not None:
        try:
            RandomFlows(workload.incast, topology, rng)
        except FieldError as error:
            key = error.field.replace("workload.", "workload.incast.")
            raise FieldError(key, error.problem) from None
    check_offered_load(workload, topology)
