# SPDX-License-Identifier: Apache-2.0
"""Traffic patterns: the sender and the receiver of every flow. Hosts are indices in `topology.hosts`.

A pattern takes exactly one uniform number for each flow from each of its generators. So a schedule does not depend on
the size of its batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sluice.policy.errors import FieldError
from sluice.policy.graph import Topology
from sluice.policy.sizes import Parts
from sluice.policy.workload import Workload

PATTERNS = ("all-to-all", "many-to-one", "permutation", "incast")

Hosts = npt.NDArray[np.int64]
Uniform = npt.NDArray[np.float64]


class Pattern(Protocol):
    """The rule for senders and receivers."""

    def pairs(self, parts: Parts) -> tuple[Hosts, Hosts]:
        """Senders and receivers of the next flows. `parts`: for each flow, the part of the sizes that it belongs to."""


def make_pattern(
    workload: Workload,
    topology: Topology,
    sources: Sequence[Sequence[str]],
    streams: Sequence[np.random.Generator],
) -> Pattern:
    """Return the pattern of a workload. Raises FieldError if the topology lacks hosts for it.

    `sources`: for each part of the sizes, the hosts that send it; an empty list means all hosts. `streams`: two
    generators.
    """
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    if len(index) < 2:
        raise FieldError("fabric", f"has {len(index)} host, but traffic needs at least 2: add hosts")
    if workload.pattern == "incast":
        to = None if workload.to is None else index[workload.to]
        return Incast(len(index), to, workload.fanin, *streams)
    to = index[workload.to] if workload.to is not None else None
    senders = Senders([[index[name] for name in names] for names in sources], len(index), to)
    if to is not None:
        return ManyToOne(senders, to, streams[0])
    if workload.pattern == "permutation":
        return Permutation(senders, derangement(len(index), streams[1]), streams[0])
    return AllToAll(senders, len(index), *streams)


class Senders:
    """For each part of the sizes, the hosts that may send it, without the receiver `to`."""

    def __init__(self, sources: Sequence[Sequence[int]], hosts: int, to: int | None) -> None:
        lists = [[h for h in (part or range(hosts)) if h != to] for part in sources]
        if not all(lists):
            raise FieldError(
                "workload.mix", "has a part whose only sender is the receiver: name another host in from"
            )
        self.count = np.asarray([len(part) for part in lists])
        self._table = np.zeros((len(lists), max(self.count)), np.int64)
        for row, part in zip(self._table, lists, strict=True):
            row[: len(part)] = part

    def pick(self, uniform: Uniform, parts: Parts) -> Hosts:
        """One sender for each flow, each allowed host with equal probability."""
        hosts: Hosts = self._table[parts, (uniform * self.count[parts]).astype(np.int64)]
        return hosts


class AllToAll:
    """Any sender, any other host as receiver."""

    def __init__(
        self, senders: Senders, hosts: int, source: np.random.Generator, sink: np.random.Generator
    ) -> None:
        self._senders, self._hosts, self._source, self._sink = senders, hosts, source, sink

    def pairs(self, parts: Parts) -> tuple[Hosts, Hosts]:
        src = self._senders.pick(self._source.random(len(parts)), parts)
        return src, _another(self._sink.random(len(parts)), self._hosts, src)


class ManyToOne:
    """Any sender, one receiver."""

    def __init__(self, senders: Senders, to: int, source: np.random.Generator) -> None:
        self._senders, self._to, self._source = senders, to, source

    def pairs(self, parts: Parts) -> tuple[Hosts, Hosts]:
        src = self._senders.pick(self._source.random(len(parts)), parts)
        return src, np.full_like(src, self._to)


class Permutation:
    """Each host sends to one other host, and receives from one."""

    def __init__(self, senders: Senders, partner: Hosts, source: np.random.Generator) -> None:
        self._senders, self._partner, self._source = senders, partner, source

    def pairs(self, parts: Parts) -> tuple[Hosts, Hosts]:
        src = self._senders.pick(self._source.random(len(parts)), parts)
        return src, self._partner[src]


class Incast:
    """Requests: `fanin` different hosts answer one receiver at the same time, so flows come in groups of `fanin`."""

    def __init__(
        self, hosts: int, to: int | None, fanin: int, source: np.random.Generator, sink: np.random.Generator
    ) -> None:
        if fanin > hosts - 1:
            raise FieldError(
                "workload.fanin",
                f"must be at most {hosts - 1}, the number of hosts without the receiver, not {fanin}",
            )
        self._hosts, self._to, self._fanin = hosts, to, fanin
        self._source, self._sink = source, sink

    def pairs(self, parts: Parts) -> tuple[Hosts, Hosts]:
        requests = -(-len(parts) // self._fanin)
        receiver = (self._sink.random(requests) * self._hosts).astype(np.int64)
        if self._to is not None:
            receiver[:] = self._to
        others = distinct(self._source.random((requests, self._fanin)), self._hosts - 1)
        src = others + (others >= receiver[:, None])
        return src.ravel()[: len(parts)], np.repeat(receiver, self._fanin)[: len(parts)]


def _another(uniform: Uniform, hosts: int, than: Hosts) -> Hosts:
    """For each host in `than`, one of the other hosts with equal probability."""
    other = (uniform * (hosts - 1)).astype(np.int64)
    return other + (other >= than)


def distinct(uniform: Uniform, below: int) -> Hosts:
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
