# SPDX-License-Identifier: Apache-2.0
"""The figures of a run: FCT and slowdown by size class, deadline misses, unfinished flows.

Slowdowns are measured against the ideal completion time of a flow, which is its FCT if it is alone in the network.

The sender's own link and every port on the path store and forward. The first segment crosses all links, and the
slowest link paces all later segments. With n segments, all full except the last, over links of rate r_j and delay d_j:

    ideal = sum_j (first / r_j + d_j) + (total - first) / min_j r_j

    first   bytes of the first segment on the link, headers included
    total   bytes of all segments on the link, headers included

The equation is exact if no link is slower than the last. It leaves out TCP's first windows, which cost a few round
trips more.

The core of a path is computed for pairs of edge switches, because a thousand hosts have a million pairs.

The arithmetic is on columns of flows (numpy arrays).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.network.graph import Port, Topology
from sluice.policy.units import HEADER_BYTES, MSS_BYTES
from sluice.policy.wire.records import (
    MEDIUM_LIMIT_BYTES,
    SCHEDULED,
    SIZE_CLASSES,
    SMALL_LIMIT_BYTES,
    UNFINISHED,
    WATCHED,
    FlowRecord,
)

Array = npt.NDArray[np.float64]


def distribution(values: Array) -> dict[str, float | int | None]:
    """n, mean, median, 95th and 99th percentile. All but n are None if there are no values."""
    if not len(values):
        return {"n": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
    }


@dataclass(frozen=True)
class FlowFigures:
    """The flows of a run as columns, from which its figures are computed."""

    fct_us: Array
    """nan if the flow did not finish."""
    slowdown: Array
    """nan if the flow did not finish, or if its ideal FCT is unknown."""
    size_class: npt.NDArray[np.uint8]
    """Index in SIZE_CLASSES."""
    has_deadline: npt.NDArray[np.bool_]
    met: npt.NDArray[np.bool_]
    """False if the flow has no deadline."""
    retransmissions: int
    """Sum over all flows."""

    @classmethod
    def of(cls, records: Iterable[FlowRecord], source: str = SCHEDULED) -> FlowFigures:
        """The columns of the flows of this source among the records."""
        flows = [record for record in records if record.source == source]
        return cls(
            fct_us=_or_nan(flow.fct_us for flow in flows),
            slowdown=_or_nan(flow.slowdown for flow in flows),
            size_class=np.asarray([SIZE_CLASSES.index(flow.size_class) for flow in flows], np.uint8),
            has_deadline=np.asarray([flow.deadline_us is not None for flow in flows], bool),
            met=np.asarray([flow.met is True for flow in flows], bool),
            retransmissions=sum(flow.retransmissions or 0 for flow in flows),
        )


def summarise(flows: Iterable[FlowRecord] | FlowFigures) -> dict[str, Any]:
    """The figures in a run's summary.json, without its validity."""
    figures = flows if isinstance(flows, FlowFigures) else FlowFigures.of(flows)
    n, missed = int(figures.has_deadline.sum()), int((figures.has_deadline & ~figures.met).sum())
    return {
        "fct_us": _by_class(figures, figures.fct_us),
        "slowdown": _by_class(figures, figures.slowdown),
        "deadlines": {"n": n, "missed": missed, "miss_ratio": missed / n if n else None},
        "retransmissions": figures.retransmissions,
        "unfinished": int(np.isnan(figures.fct_us).sum()),
    }


def summarise_watched(records: Iterable[FlowRecord]) -> dict[str, Any]:
    """The figures of the flows that other programs had during a run."""
    flows = [record for record in records if record.source == WATCHED]
    figures = summarise(FlowFigures.of(flows, WATCHED))
    return {
        "n": len(flows),
        "fct_us": figures["fct_us"],
        "slowdown": figures["slowdown"],
        "bytes": sum(flow.bytes for flow in flows),
        "retransmissions": sum(flow.retransmissions or 0 for flow in flows),
        "unfinished": sum(flow.status == UNFINISHED for flow in flows),
        "deadlines": sum(flow.met is not None for flow in flows),
        "missed": sum(flow.met is False for flow in flows),
    }


def cdf(values: Array, points: int) -> tuple[Array, Array]:
    """Return (values, share of all that does not exceed each), with finer steps in the upper tail."""
    ordered = np.sort(values)
    last = len(ordered) - 1
    middle = np.linspace(0, last, points)
    tail = last - np.geomspace(1, max(last, 1), points // 4)
    index = np.unique(np.clip(np.concatenate([middle, tail]).round().astype(int), 0, last))
    return ordered[index], (index + 1) / len(ordered)


def _by_class(figures: FlowFigures, values: Array) -> dict[str, dict[str, float | int | None]]:
    measured = ~np.isnan(values)
    groups = {"all": values[measured]}
    for index, name in enumerate(SIZE_CLASSES):
        groups[name] = values[measured & (figures.size_class == index)]
    return {name: distribution(group) for name, group in groups.items()}


def _or_nan(values: Iterable[float | None]) -> Array:
    return np.asarray([np.nan if value is None else value for value in values], np.float64)


def wire_bytes(size_bytes: npt.NDArray[Any]) -> Array:
    """Bytes that flows of these sizes take on a link: payload, and the headers of every segment."""
    wire: Array = size_bytes + HEADER_BYTES * np.ceil(size_bytes / MSS_BYTES)
    return wire


def size_classes(sizes_bytes: npt.NDArray[np.integer[Any]], scale: float = 1.0) -> npt.NDArray[np.uint8]:
    """Size classes as indices in SIZE_CLASSES. The same rule as `records.size_class`."""
    limits = (SMALL_LIMIT_BYTES * scale, MEDIUM_LIMIT_BYTES * scale)
    return np.searchsorted(limits, sizes_bytes, side="left").astype(np.uint8)


Indices = npt.NDArray[Any]


def _inverse(port: Port) -> float:
    """Seconds per bit; infinite if the rate is unknown, which is 0."""
    return 1 / port.rate_bps if port.rate_bps else math.inf


_Core = tuple[float, float, float]
"""Of the links between switches on one shortest path: sum and maximum of the inverse rates, and the delay in us."""
_NO_PATH: _Core = (0.0, 0.0, math.inf)


class IdealTimes:
    """Ideal completion times in a topology. Hosts are indices in `topology.hosts`.

    A time is infinite if no path joins the hosts, or if the rate of a link is unknown.
    """

    def __init__(self, topology: Topology) -> None:
        edge = edge_ports(topology)
        self._inverse = np.asarray([_inverse(port) for port in edge])
        self._delay_us = np.asarray([port.delay_ns / 1000 for port in edge])
        switches = list(dict.fromkeys(port.switch for port in edge))
        place = {name: i for i, name in enumerate(switches)}
        self._edge = np.asarray([place[port.switch] for port in edge])
        cores = [_cores_towards(topology, port) for port in {p.switch: p for p in edge}.values()]
        between = [[core.get(source, _NO_PATH) for core in cores] for source in switches]
        terms = np.asarray(between, np.float64).reshape(len(switches), len(switches), 3)
        self._inverse_sum: Array = terms[..., 0]
        self._inverse_max: Array = terms[..., 1]
        self._core_delay_us: Array = terms[..., 2]

    def of(self, src: Indices, dst: Indices, size_bytes: npt.NDArray[Any]) -> Array:
        """Ideal completion times in microseconds, for flows of `size_bytes` from `src` to `dst` (indices of hosts)."""
        pair = (self._edge[src], self._edge[dst])
        first = np.minimum(size_bytes, MSS_BYTES) + HEADER_BYTES
        crossing = self._inverse[src] + self._inverse[dst] + self._inverse_sum[pair]
        slowest = np.maximum(np.maximum(self._inverse[src], self._inverse[dst]), self._inverse_max[pair])
        delay_us = self._delay_us[src] + self._delay_us[dst] + self._core_delay_us[pair]
        ideal_us: Array = 8e6 * (first * crossing + (wire_bytes(size_bytes) - first) * slowest) + delay_us
        return ideal_us


def edge_ports(topology: Topology) -> list[Port]:
    """The switch port of each host, in the order of the hosts."""
    return [topology.edge_port(host.name) for host in topology.hosts]


def _cores_towards(topology: Topology, edge: Port) -> Mapping[str, _Core]:
    """For each switch: the links of one shortest path from it to the switch of this edge port."""
    distance = topology.distances_to_switch(edge.switch)
    cores: dict[str, _Core] = {edge.switch: (0.0, 0.0, 0.0)}
    for name in sorted(distance, key=distance.__getitem__):
        if name not in cores:
            port = next(p for p in topology.ports_of[name] if distance.get(p.peer) == distance[name] - 1)
            inverse_sum, inverse_max, delay_us = cores[port.peer]
            inverse = _inverse(port)
            cores[name] = inverse_sum + inverse, max(inverse_max, inverse), delay_us + port.delay_ns / 1000
    return cores
