# SPDX-License-Identifier: Apache-2.0
"""The policy in the loop, for many ports at once: counters in, demotion thresholds out, for controller and simulator.

    ports = Adaptation(policy, rates_bps)
    ports.observe(now_ns, counters)       # as often as counters come, a few times a window at least
    moved = ports.adjust()                # at each adjustment interval; ports.edges are the thresholds

Everything is an array with a row for each port: the work is in ports x tags, and no Python runs for each of them.
No clock and no I/O: `now_ns` may be of any clock that does not jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policy import tags
from policy.desired import Policy
from policy.online_thresholds import Choice, delay_model, worthwhile_thresholds
from policy.port_traffic import Counters, Floats, PortTraffic, flow_sizes, load_of_tags, load_up_to
from policy.queue_map import queue_map
from policy.schemes import ThresholdRule
from policy.thresholds import Counts, SlidingCounts, percentile_edges
from policy.units import NS_PER_MS, NS_PER_S

_PACKETS, _BYTES, _COMPLETED = range(3)
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
_ASSUMED_LOAD = 0.8
"""Of a port whose rate is not known."""

Mask = npt.NDArray[np.bool_]
"""One truth a port, shape (P,)."""


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
        """Of switches that count nothing but completed flows by bucket, shape (P, 40)."""
        by_tag = np.zeros((len(completed), tags.TAG_COUNT), np.int64)
        by_tag[:, _ATTAINED] = completed
        return cls(np.zeros_like(by_tag), np.zeros_like(by_tag), by_tag)

    @classmethod
    def zero(cls, ports: int) -> PortCounters:
        return cls.of_completed(np.zeros((ports, tags.ATTAINED_BUCKETS), np.int64))


class Adaptation:
    """What ports under one policy have seen within its window, and the thresholds that follow."""

    def __init__(
        self,
        policy: Policy,
        rates_bps: Sequence[int | None],
        start: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """`rates_bps` of the ports' links, None where unknown; `start`: thresholds in force in bytes, those of the
        policy unless given."""
        self._policy = policy
        self._rates_bps = np.asarray([rate or 1 for rate in rates_bps], np.float64)
        self._rate_unknown = np.asarray([rate is None for rate in rates_bps], bool)
        self._window = SlidingCounts(policy.window_ms * NS_PER_MS)
        self.edges: Choice = edges_of(start if start is not None else [policy.thresholds] * len(rates_bps))
        """Thresholds in force as indices of tags.EDGES_BYTES, shape (P, thresholds)."""
        self.held: Mask = np.zeros(len(rates_bps), bool)
        """Ports whose thresholds stay as they are, whatever they see."""

    def adopt(self, policy: Policy) -> None:
        """Go on under a policy of the same scheme and queues: with its window, and with what has been seen."""
        self._policy = policy
        self._window.window_ns = policy.window_ms * NS_PER_MS

    def observe(self, now_ns: int, counters: PortCounters) -> None:
        """Take the counters as they stand now. The first are a baseline."""
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
        """Flows completed in the window; under online thresholds also those without a FIN, as the bytes tell."""
        grown = self._window.grown
        if grown is None or (self._online and not self._window.covered_ns):
            return np.zeros(len(self._rates_bps), np.int64)
        if self._online:
            return np.rint(flow_sizes(self._traffic(grown)).flows).astype(np.int64)
        return np.asarray(grown.sum(axis=1))

    def thresholds(self, row: int) -> tuple[int, ...]:
        """A port's thresholds in bytes."""
        return tuple(tags.EDGES_BYTES[k] for k in self.edges[row])

    def adjust(self) -> Mask:
        """Move the thresholds to what they should be now; true for the ports where they have moved.

        A port that has seen too little keeps what is there.
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

    def _by_percentiles(self, completed: Counts) -> tuple[Mask, Choice]:
        enough = completed.sum(axis=1) >= self._policy.min_flows
        return enough, percentile_edges(completed, self._policy.percentiles)

    def _by_delay(self, grown: Counters) -> tuple[Mask, Choice]:
        traffic = self._traffic(grown)
        sizes, load = flow_sizes(traffic), load_up_to(traffic)
        scale = self._to_assumed_load(load)
        before = _before_levels(self._policy, traffic) * scale
        model = delay_model(sizes, load * scale, before)
        return sizes.flows >= self._policy.min_flows, worthwhile_thresholds(model, self.edges)

    def _traffic(self, grown: Counters) -> PortTraffic:
        return PortTraffic(
            packets=grown[:, _PACKETS],
            bytes=grown[:, _BYTES],
            completed=grown[:, _COMPLETED],
            seconds=np.full(len(grown), self._window.covered_ns / NS_PER_S),
            rate_bps=self._rates_bps,
        )

    def _to_assumed_load(self, load: Floats) -> Floats:
        """Factor of the loads: 1 where the rate is known; else what makes them the assumed load. Shape (P, 1)."""
        assumed = _ASSUMED_LOAD / np.maximum(load[:, -1], 1e-9)
        return np.asarray(np.where(self._rate_unknown, assumed, 1.0)[:, None])


def edges_of(thresholds_bytes: Sequence[Sequence[int]]) -> Choice:
    """The indices of the edges that thresholds in bytes become."""
    rows = [[tags.edge_index(threshold) for threshold in row] for row in thresholds_bytes]
    return np.asarray(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 0)


def _before_levels(policy: Policy, traffic: PortTraffic) -> Floats:
    """Load of traffic that shows no bytes sent (deadlines, known sizes) in queues before each level's, shape (P, L)."""
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
