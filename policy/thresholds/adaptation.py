# SPDX-License-Identifier: Apache-2.0
"""Online adaptation of demotion thresholds for many ports at once: counters in, thresholds out.

    ports = Adaptation(policy, rates_bps)
    ports.observe(now_ns, counters)       # whenever counters arrive, at least a few times in a window
    moved = ports.adjust()                # at each adjustment interval; ports.edges are the thresholds

The controller and the simulator both use it. Every array has one row for each port, so numpy does the work for all
ports x tags without a Python loop. There is no clock and no I/O: `now_ns` may come from any clock that does not jump.

One rule takes percentiles of flow sizes in a sliding window over a port's counters. Source: Gutiérrez, Barcellos,
Branch, "Dynamic adjustment of a MLFQ flow scheduler to improve cloud applications performance", DYNA 85(206), 2018,
section 3.2. The paper's switch keeps a sorted list of sizes. Here a port keeps a histogram over the tag's buckets: FIN
packets by tag. A threshold can only be a bucket's edge, so no relevant information is lost. A port needs 40 counters
for any number of flows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.schemes import ThresholdRule
from sluice.policy.thresholds import port_traffic
from sluice.policy.thresholds.online import EdgeIndices, delay_model, threshold_limits, worthwhile_thresholds
from sluice.policy.units import MSS_BYTES, NS_PER_MS, NS_PER_S

Counts = npt.NDArray[np.int64]
"""Completed flows by attained-service bucket, shape (40,)."""
Weights = npt.NDArray[np.float64]
"""The same with weights, which may be fractions."""


def percentile_edges(completed: Counts | Weights, percentiles: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return for each percentile (nearest rank) the bucket that holds it, as index of its upper edge, a threshold.

    `completed`: of P ports, shape (P, 40). The result has the shape (P, percentiles), and no row decreases. Equal
    neighbours leave the queue between them empty. A port without flows has the last edge.
    """
    cumulative = np.cumsum(completed, axis=1)
    part = np.asarray(percentiles) / 100.0
    # A part above zero: with whole counts, this is the nearest rank. Sums of fractions may be off by rounding.
    needed = np.maximum(part * cumulative[:, -1:] * (1 - 1e-9), 1e-12)
    below = np.count_nonzero(cumulative[:, None, :] < needed[:, :, None], axis=2)
    return np.asarray(np.minimum(below, tags.ATTAINED_BUCKETS - 1), np.int64)


MOST_GROWN = 1 << 48
"""No counter grows by this much between two readings: 281 TB."""
_SLICES_A_WINDOW = 256


@dataclass
class SlidingCounts:
    """The growth of cumulative counters in the last `window_ns`. Counters are an array, always of one shape.

    The first counters are a baseline. A counter has 64 bits and wraps around. A counter that
    decreased otherwise was reset and counts from zero. To bound the memory, counters that arrive
    more often than 256 times in a window are combined.
    """

    window_ns: int
    _last: npt.NDArray[np.int64] | None = None
    _times_ns: deque[int] = field(default_factory=deque)
    """Arrival times of counters: the start of the window, and all later ones."""
    _slices: deque[tuple[int, npt.NDArray[np.int64]]] = field(default_factory=deque)
    _sum: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def observe(self, now_ns: int, counters: npt.NDArray[np.int64]) -> None:
        """Take the counters of this moment. Times must not decrease."""
        if self._last is None:
            self._sum = np.zeros_like(counters)
            self._times_ns.append(now_ns)
        else:
            self._append(now_ns, growth(self._last, counters))
        self._last = counters.copy()
        begin_ns = now_ns - self.window_ns
        while self._slices and self._slices[0][0] <= begin_ns:
            self._sum -= self._slices.popleft()[1]
        while len(self._times_ns) > 1 and self._times_ns[1] <= begin_ns:
            self._times_ns.popleft()

    def _append(self, now_ns: int, grown: npt.NDArray[np.int64]) -> None:
        self._sum += grown
        before_ns = self._times_ns[-1]
        if len(self._times_ns) > 1 and now_ns - self._times_ns[-2] < self.window_ns // _SLICES_A_WINDOW:
            self._times_ns.pop()
            if self._slices and self._slices[-1][0] == before_ns:
                grown = grown + self._slices.pop()[1]
        self._times_ns.append(now_ns)
        if grown.any():
            self._slices.append((now_ns, grown))

    @property
    def grown(self) -> npt.NDArray[np.int64] | None:
        """Return the growth within the window (a copy); None before the first counters."""
        return None if self._last is None else self._sum.copy()

    @property
    def covered_ns(self) -> int:
        """The time of that growth: about the window, and less at the start."""
        return self._times_ns[-1] - self._times_ns[0] if self._times_ns else 0


def growth(before: npt.NDArray[np.int64], now: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the growth between two readings of cumulative counters. int64 holds the 64 bits and
    wraps like them.

    A counter that a switch does not support always has all bits set (OpenFlow 1.3.5, section 5.8)
    and does not grow.
    """
    grown = now - before
    went_down = (grown < 0) | (grown >= MOST_GROWN)
    if went_down.any():
        since_reset = np.where((now >= 0) & (now < MOST_GROWN), now, 0)
        grown = np.where(went_down, since_reset, grown)
    return grown


_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
_ASSUMED_LOAD = 0.8
"""Load of a port whose rate is unknown."""

Mask = npt.NDArray[np.bool_]
"""One boolean for each port, shape (P,)."""


@dataclass(frozen=True)
class PortCounters:
    """Cumulative counters of P ports."""

    packets: port_traffic.Counters
    """By tag, shape (P, 62)."""
    bytes: port_traffic.Counters
    """Frames, headers included; the same shape."""
    completed: port_traffic.Counters
    """Packets with a FIN by group of ingress ports and attained-service bucket, shape (P, INGRESS_GROUPS, 40)."""

    @classmethod
    def zero(cls, ports: int) -> PortCounters:
        """Counters of ports that have counted nothing."""
        by_tag = np.zeros((ports, tags.TAG_COUNT), np.int64)
        return cls(by_tag, by_tag, np.zeros((ports, INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64))

    def in_rows(self) -> port_traffic.Counters:
        """All counters of a port in one row, shape (P, 124 + INGRESS_GROUPS * 40)."""
        flat = self.completed.reshape(len(self.completed), INGRESS_GROUPS * tags.ATTAINED_BUCKETS)
        return np.concatenate([self.packets, self.bytes, flat], axis=1).astype(np.int64)


class Adaptation:
    """Traffic of ports within the policy's window, and the thresholds that follow from it."""

    def __init__(
        self,
        policy: Policy,
        rates_bps: Sequence[int | None],
        start: Sequence[Sequence[int]] | None = None,
        measured_burst_bytes: int = MSS_BYTES,
    ) -> None:
        """Start with no traffic.

        `rates_bps`: rates of the ports' links, None if unknown. `start`: the thresholds in force in bytes, by
        default those of the policy. The burst: as for `adopt`.
        """
        self._policy, self._measured_burst_bytes = policy, measured_burst_bytes
        self._rates_bps = np.asarray([rate or 1 for rate in rates_bps], np.float64)
        self._rate_unknown = np.asarray([rate is None for rate in rates_bps], bool)
        self._window = SlidingCounts(policy.window_ms * NS_PER_MS)
        self._evaluated: port_traffic.PortTraffic | None = None
        """The traffic in the window, from the first time that it is needed until the next counters."""
        self.edges: EdgeIndices = edges_of(
            start if start is not None else [policy.thresholds] * len(rates_bps)
        )
        """Thresholds in force, as indices of tags.EDGES_BYTES, shape (P, thresholds)."""
        self.held: Mask = np.zeros(len(rates_bps), bool)
        """Ports whose thresholds `adjust` must not move."""

    def adopt(self, policy: Policy, measured_burst_bytes: int = MSS_BYTES) -> None:
        """Continue under another policy of the same scheme and queues, with its window. Keep the traffic so far.

        `measured_burst_bytes`: the most payload that leaves a host under one tag, if the policy names none.
        """
        self._policy, self._measured_burst_bytes = policy, measured_burst_bytes
        self._evaluated = None
        self._window.window_ns = policy.window_ms * NS_PER_MS

    def observe(self, now_ns: int, counters: PortCounters) -> None:
        """Take the counters of this moment. The first counters are a baseline and count as no traffic."""
        self._window.observe(now_ns, counters.in_rows())
        self._evaluated = None

    @property
    def flows(self) -> Counts:
        """Flows completed in the window, shape (P,).

        Online thresholds also count flows without a FIN: `flow_sizes` estimates them from the bytes.
        """
        grown, online = self._window.grown, self._policy.definition.threshold_rule is ThresholdRule.ONLINE
        if grown is None or (online and not self._window.covered_ns):
            return np.zeros(len(self._rates_bps), np.int64)
        traffic = self._traffic(grown)
        flows = port_traffic.flow_sizes(traffic).flows if online else traffic.ends.sum(axis=(1, 2))
        return np.rint(flows).astype(np.int64)

    def thresholds(self, row: int) -> tuple[int, ...]:
        """The thresholds of the port in this row, in bytes."""
        return tuple(tags.EDGES_BYTES[k] for k in self.edges[row])

    def adjust(self) -> Mask:
        """Move the thresholds to their best values for the traffic so far. Return true for the ports that moved.

        A port with too few flows in its window keeps its thresholds.
        """
        grown = self._window.grown
        if grown is None or self.edges.shape[1] == 0:
            return np.zeros(len(self._rates_bps), bool)
        match self._policy.definition.threshold_rule:
            case ThresholdRule.PERCENTILE:
                traffic = self._traffic(grown)
                enough = traffic.ends.sum(axis=(1, 2)) >= self._policy.min_flows
                wanted = percentile_edges(traffic.believed_sizes, self._policy.percentiles)
            case ThresholdRule.ONLINE if self._window.covered_ns:
                traffic = self._traffic(grown)
                sizes, load = port_traffic.flow_sizes(traffic), port_traffic.load_up_to(traffic)
                # A port whose rate is not known has the assumed load.
                assumed = _ASSUMED_LOAD / np.maximum(load[:, -1], 1e-9)
                scale = np.where(self._rate_unknown, assumed, 1.0)[:, None]
                before = _load_before_levels(self._policy, traffic) * scale
                model = delay_model(sizes, load * scale, before, *threshold_limits(self._policy))
                enough = sizes.flows >= self._policy.min_flows
                wanted = worthwhile_thresholds(model, self.edges)
            case _:
                return np.zeros(len(self._rates_bps), bool)
        moved = enough & ~self.held & (wanted != self.edges).any(axis=1)
        self.edges = np.where(moved[:, None], wanted, self.edges)
        return np.asarray(moved)

    def _traffic(self, grown: port_traffic.Counters) -> port_traffic.PortTraffic:
        if self._evaluated is not None:
            return self._evaluated
        packets, frame_bytes, completed = np.split(grown, [tags.TAG_COUNT, 2 * tags.TAG_COUNT], axis=1)
        completed = completed.reshape(len(grown), INGRESS_GROUPS, tags.ATTAINED_BUCKETS)
        no_sizes = [tag for tag in self._policy.reserved_dscp if tag <= tags.ATTAINED_LAST]
        if no_sizes:  # packets with a reserved DSCP say nothing about the sizes of flows
            packets[:, no_sizes] = frame_bytes[:, no_sizes] = 0
            completed[:, :, [tag - tags.ATTAINED_FIRST for tag in no_sizes]] = 0
        policy = self._policy
        robust, ends = None, completed.astype(float)
        if policy.robust_ends:
            packet_bytes = tags.longest_packet_bytes(policy.tag_burst or self._measured_burst_bytes)
            robust = port_traffic.Robust(policy.min_flows, packet_bytes, policy.reserved_dscp)
            most = port_traffic.most_ends(
                port_traffic.payload_by_bucket(packets, frame_bytes), robust.packet_bytes, robust.reserved
            )
            ends = port_traffic.believed_ends(completed, most)
        seconds = np.full(len(grown), self._window.covered_ns / NS_PER_S)
        self._evaluated = port_traffic.PortTraffic(
            packets, frame_bytes, ends, seconds, self._rates_bps, robust
        )
        return self._evaluated


def edges_of(thresholds_bytes: Sequence[Sequence[int]]) -> EdgeIndices:
    """Indices of the edges to which thresholds in bytes are rounded, shape (P, thresholds)."""
    rows = [[tags.edge_index(threshold) for threshold in row] for row in thresholds_bytes]
    return np.asarray(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


def _load_before_levels(policy: Policy, traffic: port_traffic.PortTraffic) -> port_traffic.Floats:
    """Load that the port serves before each level, shape (P, L).

    It is the load of tags other than attained service (deadlines, known sizes) in queues before the level's queue.
    """
    queue_of = np.asarray(queue_map(policy, policy.thresholds))
    load = port_traffic.load_of_tags(traffic)
    load[:, _ATTAINED] = 0.0
    queues = map(policy.definition.queue_rule.queue_of_level, range(len(policy.thresholds) + 1))
    return np.stack([load[:, queue_of < queue].sum(axis=1) for queue in queues], axis=1)
