# SPDX-License-Identifier: Apache-2.0
"""Online adaptation of demotion thresholds for many ports at once: counters in, thresholds out.

    ports = Adaptation(policy, rates_bps)
    ports.observe(now_ns, counters)       # whenever counters arrive, at least a few times in a window
    moved = ports.adjust()                # at each adjustment interval; ports.edges are the thresholds

The controller and the simulator both use it. Every array has one row for each port, so numpy does the work for all
ports x tags without a Python loop. There is no clock and no I/O: `now_ns` may come from any clock that does not jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policy import tags
from policy.desired import Policy
from policy.online_thresholds import EdgeIndices, delay_model, threshold_limits, worthwhile_thresholds
from policy.port_traffic import Counters, Floats, PortTraffic, flow_sizes, load_of_tags, load_up_to
from policy.queue_map import queue_map
from policy.schemes import ThresholdRule
from policy.thresholds import Counts, SlidingCounts, percentile_edges
from policy.units import NS_PER_MS, NS_PER_S

_PACKETS, _BYTES, _COMPLETED = range(3)
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
_ASSUMED_LOAD = 0.8
"""Load of a port whose rate is unknown."""

Mask = npt.NDArray[np.bool_]
"""One boolean for each port, shape (P,)."""


@dataclass(frozen=True)
class PortCounters:
    """Cumulative counters of P ports by tag, each of shape (P, 62)."""

    packets: Counters
    bytes: Counters
    """Frames, headers included."""
    completed: Counters
    """Packets with a FIN."""

    @classmethod
    def of_completed(cls, completed: Counts) -> PortCounters:
        """Counters of switches that count only completed flows by bucket, shape (P, 40)."""
        by_tag = np.zeros((len(completed), tags.TAG_COUNT), np.int64)
        by_tag[:, _ATTAINED] = completed
        return cls(np.zeros_like(by_tag), np.zeros_like(by_tag), by_tag)

    @classmethod
    def zero(cls, ports: int) -> PortCounters:
        """Counters of ports that have counted nothing."""
        return cls.of_completed(np.zeros((ports, tags.ATTAINED_BUCKETS), np.int64))


class Adaptation:
    """Traffic of ports within the policy's window, and the thresholds that follow from it."""

    def __init__(
        self,
        policy: Policy,
        rates_bps: Sequence[int | None],
        start: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Start with no traffic.

        `rates_bps`: rates of the ports' links, None if unknown. `start`: the thresholds in force in bytes, by
        default those of the policy.
        """
        self._policy = policy
        self._rates_bps = np.asarray([rate or 1 for rate in rates_bps], np.float64)
        self._rate_unknown = np.asarray([rate is None for rate in rates_bps], bool)
        self._window = SlidingCounts(policy.window_ms * NS_PER_MS)
        self.edges: EdgeIndices = edges_of(
            start if start is not None else [policy.thresholds] * len(rates_bps)
        )
        """Thresholds in force, as indices of tags.EDGES_BYTES, shape (P, thresholds)."""
        self.held: Mask = np.zeros(len(rates_bps), bool)
        """Ports whose thresholds `adjust` must not move."""

    def adopt(self, policy: Policy) -> None:
        """Continue under another policy of the same scheme and queues, with its window. Keep the traffic so far."""
        self._policy = policy
        self._window.window_ns = policy.window_ms * NS_PER_MS

    def observe(self, now_ns: int, counters: PortCounters) -> None:
        """Take the counters of this moment. The first counters are a baseline and count as no traffic."""
        if self._online:
            together = np.stack([counters.packets, counters.bytes, counters.completed], axis=1)
            self._window.observe(now_ns, together.astype(np.int64))
        else:
            self._window.observe(now_ns, counters.completed[:, _ATTAINED].astype(np.int64))

    @property
    def _online(self) -> bool:
        return self._policy.definition.threshold_rule is ThresholdRule.ONLINE

    @property
    def flows(self) -> Counts:
        """Flows completed in the window, shape (P,).

        Online thresholds also count flows without a FIN: `flow_sizes` estimates them from the bytes.
        """
        grown = self._window.grown
        if grown is None or (self._online and not self._window.covered_ns):
            return np.zeros(len(self._rates_bps), np.int64)
        if self._online:
            return np.rint(flow_sizes(self._traffic(grown)).flows).astype(np.int64)
        return np.asarray(grown.sum(axis=1))

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
                enough, wanted = self._by_percentiles(grown)
            case ThresholdRule.ONLINE if self._window.covered_ns:
                enough, wanted = self._by_delay(grown)
            case _:
                return np.zeros(len(self._rates_bps), bool)
        moved = enough & ~self.held & (wanted != self.edges).any(axis=1)
        self.edges = np.where(moved[:, None], wanted, self.edges)
        return np.asarray(moved)

    def _by_percentiles(self, completed: Counts) -> tuple[Mask, EdgeIndices]:
        enough = completed.sum(axis=1) >= self._policy.min_flows
        return enough, percentile_edges(completed, self._policy.percentiles)

    def _by_delay(self, grown: Counters) -> tuple[Mask, EdgeIndices]:
        traffic = self._traffic(grown)
        sizes, load = flow_sizes(traffic), load_up_to(traffic)
        scale = self._load_factors(load)
        before = _load_before_levels(self._policy, traffic) * scale
        model = delay_model(sizes, load * scale, before, *threshold_limits(self._policy))
        return sizes.flows >= self._policy.min_flows, worthwhile_thresholds(model, self.edges)

    def _traffic(self, grown: Counters) -> PortTraffic:
        no_sizes = [tag for tag in self._policy.reserved_dscp if tag <= tags.ATTAINED_LAST]
        if no_sizes:  # packets with a reserved DSCP say nothing about the sizes of flows
            grown = grown.copy()
            grown[..., no_sizes] = 0
        return PortTraffic(
            packets=grown[:, _PACKETS],
            bytes=grown[:, _BYTES],
            completed=grown[:, _COMPLETED],
            seconds=np.full(len(grown), self._window.covered_ns / NS_PER_S),
            rate_bps=self._rates_bps,
        )

    def _load_factors(self, load: Floats) -> Floats:
        """Factors of the loads, shape (P, 1): 1 for a known rate; otherwise the factor that gives _ASSUMED_LOAD."""
        assumed = _ASSUMED_LOAD / np.maximum(load[:, -1], 1e-9)
        return np.asarray(np.where(self._rate_unknown, assumed, 1.0)[:, None])


def edges_of(thresholds_bytes: Sequence[Sequence[int]]) -> EdgeIndices:
    """Indices of the edges to which thresholds in bytes are rounded, shape (P, thresholds)."""
    rows = [[tags.edge_index(threshold) for threshold in row] for row in thresholds_bytes]
    return np.asarray(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


def _load_before_levels(policy: Policy, traffic: PortTraffic) -> Floats:
    """Load that the port serves before each level, shape (P, L).

    It is the load of tags other than attained service (deadlines, known sizes) in queues before the level's queue.
    """
    queue_of = np.asarray(queue_map(policy, policy.thresholds))
    load = load_of_tags(traffic)
    load[:, _ATTAINED] = 0.0
    levels = range(len(policy.thresholds) + 1)
    return np.stack(
        [
            load[:, queue_of < policy.definition.queue_rule.queue_of_level(level)].sum(axis=1)
            for level in levels
        ],
        axis=1,
    )
