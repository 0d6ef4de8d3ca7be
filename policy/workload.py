# SPDX-License-Identifier: Apache-2.0
"""Workloads: which flow starts when, from whom to whom, how big, and until when it should be done.

A schedule is drawn once from a seeded generator and then only read: the testbed's agents and the simulator run the
same list. Arrivals are Poisson; sizes come from an empirical CDF (linear between its points) or from a mix of fixed
sizes; deadlines are given to a share of the flows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policy.errors import FieldError
from policy.graph import Port, Topology
from policy.records import size_class

MSS_BYTES = 1448
"""TCP payload of a full segment with time stamps on a 1500-byte MTU."""
FRAME_BYTES = 1514
"""The same segment on the link, as a shaper counts it."""
WIRE_PER_PAYLOAD = FRAME_BYTES / MSS_BYTES

MIN_FLOW_BYTES = 64
"""Flows are at least this long: room for the header that travels in front of the payload."""

QUENCH = ("never", "kill", "suspend")
"""What may happen to a flow that cannot make its deadline (Zhang et al., section 3.3)."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Flow:
    """One scheduled flow. Times: `start_s` from the start of the run, the others in microseconds."""

    id: str
    start_s: float
    src: str
    dst: str
    bytes: int
    """Of an endless flow: the least that it sends."""
    size_class: str
    ideal_us: float
    """FCT of this flow alone in the network."""
    deadline_us: float | None
    elapsed_us: float | None = None
    """How long before its start the flow had begun, waiting in its program; with a deadline."""
    until_s: float | None = None
    """From the start of the run: until then an endless flow is sent."""
    importance: float | None = None
    """Of a standard flow: 1."""
    importance_share: float | None = None
    """Share of the importance in the flow's precedence; its urgency has the rest."""
    quench: str = "never"
    label: str = ""


@dataclass(frozen=True)
class SizeCdf:
    """An empirical distribution of flow sizes: points (bytes, cumulative probability), linear in between."""

    name: str
    sizes_bytes: tuple[float, ...]
    cumulative: tuple[float, ...]

    @property
    def mean_bytes(self) -> float:
        """Mean of the interpolated distribution (trapezoids between the points)."""
        sizes, cumulative = np.asarray(self.sizes_bytes), np.asarray(self.cumulative)
        return float(sizes[0] * cumulative[0] + np.sum((sizes[1:] + sizes[:-1]) / 2 * np.diff(cumulative)))

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        return np.interp(rng.random(count), self.cumulative, self.sizes_bytes)


def parse_cdf(name: str, text: str) -> SizeCdf:
    """Read "bytes probability" lines; "#" starts a comment; probabilities run to 1 or to 100 (percent).

    Raises FieldError naming the line when it does not rise, or does not end at 1 (100).
    """
    sizes: list[float] = []
    cumulative: list[float] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            size, probability = map(float, words)
        except ValueError:
            raise FieldError(
                name, f'line {number}: write "bytes probability", not {line.strip()!r}'
            ) from None
        if sizes and (size < sizes[-1] or probability < cumulative[-1]):
            raise FieldError(name, f"line {number}: sizes and probabilities must not fall")
        sizes.append(size)
        cumulative.append(probability)
    if len(sizes) < 2 or cumulative[-1] not in (1.0, 100.0) or cumulative[0] < 0 or sizes[0] < 0:
        raise FieldError(name, "needs at least two points, from 0 or more up to probability 1 (or 100)")
    return SizeCdf(name, tuple(sizes), tuple(p / cumulative[-1] for p in cumulative))


@dataclass(frozen=True)
class MixPart:
    """A share of the flows: one size, from some of the hosts."""

    bytes: int
    share: float
    sources: tuple[str, ...]
    """Hosts that send this part; empty means every host but the receiver."""


@dataclass(frozen=True)
class Mix:
    parts: tuple[MixPart, ...]

    @property
    def mean_bytes(self) -> float:
        return sum(part.bytes * part.share for part in self.parts)


@dataclass(frozen=True)
class Deadlines:
    """Deadlines from the start of the flow, for a share of the flows."""

    share: float
    distribution: str
    min_us: float
    max_us: float
    mean_us: float

    def draw(self, rng: np.random.Generator) -> float:
        if self.distribution == "exponential":
            return max(self.min_us, float(rng.exponential(self.mean_us)))
        return float(rng.uniform(self.min_us, self.max_us))


@dataclass(frozen=True)
class Workload:
    """What the scenario's [workload] and [deadlines] say."""

    sizes: SizeCdf | Mix
    pattern: str
    to: str | None
    load: float
    flows: int
    scale: float
    shift_at: float | None = None
    """Fraction of the flows after which `shifted` replaces `sizes`."""
    shifted: SizeCdf | Mix | None = None
    deadlines: Deadlines | None = None


def ideal_fct_us(path: Sequence[Port], size_bytes: int) -> float:
    """FCT of a lone flow: the sender's link and every port on the path store and forward, the slowest paces the rest.

    The first segment crosses all links one after the other; what follows arrives at the slowest link's pace. No
    allowance for start-up: TCP's first windows cost a few round-trip times more.
    """
    host_rate_bps = path[-1].rate_bps
    rates = [host_rate_bps, *(port.rate_bps for port in path)]
    first = min(size_bytes, MSS_BYTES) + FRAME_BYTES - MSS_BYTES
    total = size_bytes * WIRE_PER_PAYLOAD if size_bytes > MSS_BYTES else first
    crossing = sum(first * 8e6 / rate for rate in rates)
    return crossing + max(0.0, total - first) * 8e6 / min(rates) + sum(port.delay_ns for port in path) / 1000


def arrival_rate_per_s(workload: Workload, topology: Topology, mean_bytes: float) -> float:
    """Flows per second over the whole network that load the links as asked, frame overhead included.

    many-to-one: the receiver's link carries `load`; all-to-all: every host's link does, on average.
    """
    loaded = (
        [topology.edge_port(workload.to)] if workload.to else [port for port in topology.ports if port.edge]
    )
    capacity_bps = sum(port.rate_bps for port in loaded)
    return workload.load * capacity_bps / (8 * mean_bytes * WIRE_PER_PAYLOAD)


def schedule(
    workload: Workload,
    topology: Topology,
    rng: np.random.Generator,
    run_id: str,
    until_s: float = math.inf,
) -> list[Flow]:
    """Every flow of a run that starts before `until_s`, by start time. The same generator state gives the same list."""
    flows: list[Flow] = []
    ideal: dict[tuple[str, str, int], float] = {}
    now_s = 0.0
    for index in range(workload.flows):
        shifted = (
            workload.shifted and workload.shift_at is not None and index >= workload.shift_at * workload.flows
        )
        sizes = workload.shifted if shifted and workload.shifted else workload.sizes
        rate = arrival_rate_per_s(workload, topology, sizes.mean_bytes * workload.scale)
        now_s += float(rng.exponential(1 / rate))
        if now_s >= until_s:
            break
        size, src, dst = _draw_flow(sizes, workload, topology, rng)
        key = (src, dst, size)
        if key not in ideal:
            ideal[key] = ideal_fct_us(topology.one_path(src, dst), size)
        flows.append(
            Flow(
                id=f"{run_id}/{index}",
                start_s=now_s,
                src=src,
                dst=dst,
                bytes=size,
                size_class=size_class(size, workload.scale),
                ideal_us=ideal[key],
                deadline_us=_draw_deadline(workload.deadlines, rng),
            )
        )
    return flows


def _draw_flow(
    sizes: SizeCdf | Mix, workload: Workload, topology: Topology, rng: np.random.Generator
) -> tuple[int, str, str]:
    names = [host.name for host in topology.hosts]
    dst = workload.to or names[int(rng.integers(len(names)))]
    if isinstance(sizes, Mix):
        shares = np.asarray([part.share for part in sizes.parts])
        part = sizes.parts[int(rng.choice(len(shares), p=shares / shares.sum()))]
        size, candidates = float(part.bytes), [name for name in part.sources or names if name != dst]
    else:
        size, candidates = float(sizes.draw(rng, 1)[0]), [name for name in names if name != dst]
    src = candidates[int(rng.integers(len(candidates)))]
    return max(MIN_FLOW_BYTES, round(size * workload.scale)), src, dst


def _draw_deadline(deadlines: Deadlines | None, rng: np.random.Generator) -> float | None:
    if deadlines is None or rng.random() >= deadlines.share:
        return None
    return deadlines.draw(rng)


def by_source(flows: Sequence[Flow]) -> Mapping[str, list[Flow]]:
    """The part of the schedule that each host sends."""
    grouped: dict[str, list[Flow]] = {}
    for flow in flows:
        grouped.setdefault(flow.src, []).append(flow)
    return grouped
