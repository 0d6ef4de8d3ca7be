# SPDX-License-Identifier: Apache-2.0
"""Collective operations of training jobs, as flows that wait for one another.

[[workload.collective]]
kind = "ring-all-reduce"
ranks = 16                # h1 to h16, or a list of hosts
bytes = "100MB"           # that each rank has
compute = "2ms"           # of each rank before each iteration
iterations = 10
label = "train"           # flows of iteration 1 have the label train/1

A rank sends what it has received in the step before, once its own data of that step has arrived, too. It computes, and
begins the next iteration, as soon as the one before is complete for it. So ranks may be an iteration apart.

    ring-all-reduce     2(n-1) steps of bytes/n to the next rank (Patarasu, Yuan, JPDC 2009)
    halving-doubling    log2 n steps of bytes/2, bytes/4, ... to a partner, and back (Thakur, Rabenseifner, Gropp, 2005)
    all-to-all          bytes/n to each other rank, all at once
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import entry, read
from sluice.policy.schema.kinds import Choice, ListOf, Size, Text, Whole
from sluice.policy.units import MAX_FLOW_BYTES, MIN_FLOW_BYTES
from sluice.policy.workload.flows import LEVEL
from sluice.policy.workload.listed_flows import CONTROL, HOST, TIME_S, ExplicitFlow

Step = tuple[int, int]
"""The receiver of a rank's flow in a step, and its size in bytes."""

MOST_FLOWS = 5_000_000
"""Of a collective. All of them are in memory before the run."""


@dataclass(frozen=True)
class Collective:
    """A [[workload.collective]] table."""

    kind: str = entry(Choice(("ring-all-reduce", "halving-doubling", "all-to-all")), "What the ranks do.")
    bytes: int = entry(Size(MIN_FLOW_BYTES, MAX_FLOW_BYTES), "Data of each rank.")
    ranks: int = entry(Whole(2, 10_000), "Ranks: the hosts h1, h2 and so on.", default=0)
    hosts: tuple[str, ...] = entry(
        ListOf(HOST), "Instead of ranks: the host of each rank, in the order of the ring.", default=()
    )
    iterations: int = entry(Whole(1, 100_000), "How often.", default=1)
    compute_s: float = entry(
        TIME_S,
        "How long each rank computes before each iteration.",
        key="compute",
        default=0.0,
    )
    start_s: float = entry(
        TIME_S,
        "Start of the first iteration.",
        key="start",
        default=0.0,
    )
    label: str = entry(Text(longest=48), "Name of the job. By default job1, job2 and so on.", default="")
    control: str | None = CONTROL
    level: int | None = LEVEL

    def flows(self) -> Iterator[ExplicitFlow]:
        """Yield the flows of all iterations."""
        hosts = self.hosts or tuple(f"h{rank + 1}" for rank in range(self.ranks))
        steps = _STEPS[self.kind](len(hosts), self.bytes)
        for iteration in range(self.iterations):
            yield from self._iteration(hosts, steps, iteration + 1)

    def _iteration(
        self, hosts: tuple[str, ...], steps: list[list[list[Step]]], number: int
    ) -> Iterator[ExplicitFlow]:
        """A rank begins a step once it has received and sent all of the step before."""
        for step, of_rank in enumerate(steps):
            before = f"{number}/{step - 1}" if step else f"{number - 1}/{len(steps) - 1}"
            wait_s = 0.0 if step else self.compute_s + (self.start_s if number == 1 else 0.0)
            for rank, sends in enumerate(of_rank):
                first = not step and number == 1
                for to, size_bytes in sends:
                    yield ExplicitFlow(
                        source=hosts[rank],
                        to=hosts[to],
                        bytes=size_bytes,
                        start_s=wait_s,
                        label=f"{self.label}/{number}",
                        names=tuple(f"{self.label}/{number}/{step}{end}" for end in (f"<{rank}", f">{to}")),
                        after=() if first else tuple(f"{self.label}/{before}{end}{rank}" for end in "<>"),
                        control=self.control,
                        level=self.level,
                    )


def collectives(tables: object) -> Iterator[ExplicitFlow]:
    """Yield the flows of [[workload.collective]] tables. Raises FieldError that names the key."""
    if not isinstance(tables, list) or not tables:
        raise FieldError(
            "workload.collective", "must be a list of at least one table: write [[workload.collective]]"
        )
    labels = set()
    for i, table in enumerate(tables):
        where = f"workload.collective[{i}]"
        default = {"label": f"job{i + 1}"}
        collective = read(Collective, {**default, **table} if isinstance(table, Mapping) else table, where)
        _check(collective, where)
        if collective.label in labels:
            raise FieldError(f"{where}.label", f"{collective.label!r} is that of an earlier collective")
        labels.add(collective.label)
        yield from collective.flows()


def _check(collective: Collective, where: str) -> None:
    if bool(collective.ranks) == bool(collective.hosts):
        raise FieldError(f"{where}.ranks", "give either ranks (a number) or hosts (a list of names)")
    count = collective.ranks or len(collective.hosts)
    if collective.hosts and (count < 2 or len(set(collective.hosts)) < count):
        raise FieldError(f"{where}.hosts", "must name two or more hosts, each of them once")
    if collective.kind == "halving-doubling" and count & (count - 1):
        raise FieldError(f"{where}.ranks", f"must be a power of two with halving-doubling, not {count}")
    of_each = {"ring-all-reduce": 2 * (count - 1), "halving-doubling": 2 * (count.bit_length() - 1)}
    flows = count * of_each.get(collective.kind, count - 1) * collective.iterations
    if flows > MOST_FLOWS:
        raise FieldError(
            f"{where}.iterations",
            f"make {flows:,} flows of {count} ranks, and may make {MOST_FLOWS:,}: give fewer",
        )
    if collective.bytes < MIN_FLOW_BYTES * count:
        raise FieldError(f"{where}.bytes", f"must be at least {MIN_FLOW_BYTES} B for each of {count} ranks")


# The flows of each step: for each rank, what it sends.


def _ring(ranks: int, size_bytes: int) -> list[list[list[Step]]]:
    chunk = -(-size_bytes // ranks)
    return [[[((rank + 1) % ranks, chunk)] for rank in range(ranks)] for _ in range(2 * (ranks - 1))]


def _halving_doubling(ranks: int, size_bytes: int) -> list[list[list[Step]]]:
    apart, halving = ranks // 2, []
    while apart:
        part = -(-size_bytes * apart // ranks)
        halving.append([[(rank ^ apart, part)] for rank in range(ranks)])
        apart //= 2
    return [*halving, *reversed(halving)]


def _all_to_all(ranks: int, size_bytes: int) -> list[list[list[Step]]]:
    part = -(-size_bytes // ranks)
    return [[[((rank + i) % ranks, part) for i in range(1, ranks)] for rank in range(ranks)]]


_STEPS: Mapping[str, Callable[[int, int], Any]] = {
    "ring-all-reduce": _ring,
    "halving-doubling": _halving_doubling,
    "all-to-all": _all_to_all,
}
