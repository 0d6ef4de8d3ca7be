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

from sluice.policy import tags
from sluice.policy.desired import Policy
from sluice.policy.ended_flows import believed_ends, most_ends
from sluice.policy.framing import MSS_BYTES
from sluice.policy.ingress_groups import INGRESS_GROUPS, TRUNKS
from sluice.policy.online_thresholds import EdgeIndices, delay_model, threshold_limits, worthwhile_thresholds
from sluice.policy.port_traffic import (
    Counters,
    Floats,
    PortTraffic,
    Robust,
    flow_sizes,
    load_of_tags,
    load_up_to,
    payload_by_bucket,
    sizes_of_ends,
)
from sluice.policy.queue_map import queue_map
from sluice.policy.schemes import ThresholdRule
from sluice.policy.thresholds import Counts, SlidingCounts, percentile_edges
from sluice.policy.units import NS_PER_MS, NS_PER_S

_PACKETS, _BYTES, _COMPLETED = (
    slice(0, tags.TAG_COUNT),
    slice(tags.TAG_COUNT, 2 * tags.TAG_COUNT),
    slice(2 * tags.TAG_COUNT, None),
)
"""Columns of all counters of a port in one row."""
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
_ASSUMED_LOAD = 0.8
"""Load of a port whose rate is unknown."""

Mask = npt.NDArray[np.bool_]
"""One boolean for each port, shape (P,)."""


@dataclass(frozen=True)
class PortCounters:
    """Cumulative counters of P ports."""

    packets: Counters
    """By tag, shape (P, 62)."""
    bytes: Counters
    """Frames, headers included; the same shape."""
    completed: Counters
    """Packets with a FIN by group of ingress ports and attained-service bucket, shape (P, INGRESS_GROUPS, 40)."""

    @classmethod
    def of_completed(cls, completed: Counts) -> PortCounters:
        """Counters of switches that count only completed flows: by group and bucket, or of trunks alone by bucket."""
        by_tag = np.zeros((len(completed), tags.TAG_COUNT), np.int64)
        if completed.ndim == 2:
            by_group = np.zeros((len(completed), INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64)
            by_group[:, TRUNKS] = completed
            completed = by_group
        return cls(by_tag, by_tag, completed)

    @classmethod
    def zero(cls, ports: int) -> PortCounters:
        """Counters of ports that have counted nothing."""
        return cls.of_completed(np.zeros((ports, tags.ATTAINED_BUCKETS), np.int64))

    def in_rows(self) -> Counters:
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
        self._evaluated: PortTraffic | None = None
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
        traffic = self._traffic(grown)
        flows = flow_sizes(traffic).flows if self._online else traffic.ends.sum(axis=(1, 2))
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
                enough, wanted = self._by_percentiles(self._traffic(grown))
            case ThresholdRule.ONLINE if self._window.covered_ns:
                enough, wanted = self._by_delay(self._traffic(grown))
            case _:
                return np.zeros(len(self._rates_bps), bool)
        moved = enough & ~self.held & (wanted != self.edges).any(axis=1)
        self.edges = np.where(moved[:, None], wanted, self.edges)
        return np.asarray(moved)

    def _by_percentiles(self, traffic: PortTraffic) -> tuple[Mask, EdgeIndices]:
        enough = traffic.ends.sum(axis=(1, 2)) >= self._policy.min_flows
        return enough, percentile_edges(sizes_of_ends(traffic), self._policy.percentiles)

    def _by_delay(self, traffic: PortTraffic) -> tuple[Mask, EdgeIndices]:
        sizes, load = flow_sizes(traffic), load_up_to(traffic)
        scale = self._load_factors(load)
        before = _load_before_levels(self._policy, traffic) * scale
        model = delay_model(sizes, load * scale, before, *threshold_limits(self._policy))
        return sizes.flows >= self._policy.min_flows, worthwhile_thresholds(model, self.edges)

    def _traffic(self, grown: Counters) -> PortTraffic:
        if self._evaluated is None:
            self._evaluated = self._evaluate(grown)
        return self._evaluated

    def _evaluate(self, grown: Counters) -> PortTraffic:
        packets, frame_bytes = grown[:, _PACKETS], grown[:, _BYTES]
        completed = grown[:, _COMPLETED].reshape(len(grown), INGRESS_GROUPS, tags.ATTAINED_BUCKETS)
        no_sizes = [tag for tag in self._policy.reserved_dscp if tag <= tags.ATTAINED_LAST]
        if no_sizes:  # packets with a reserved DSCP say nothing about the sizes of flows
            packets[:, no_sizes] = frame_bytes[:, no_sizes] = 0
            completed[:, :, [tag - tags.ATTAINED_FIRST for tag in no_sizes]] = 0
        robust = self._robust
        return PortTraffic(
            packets=packets,
            bytes=frame_bytes,
            ends=_believed(robust, packets, frame_bytes, completed),
            seconds=np.full(len(grown), self._window.covered_ns / NS_PER_S),
            rate_bps=self._rates_bps,
            robust=robust,
        )

    @property
    def _robust(self) -> Robust | None:
        policy = self._policy
        burst_bytes = policy.tag_burst or self._measured_burst_bytes
        return Robust(policy.min_flows, burst_bytes, policy.reserved_dscp) if policy.robust_ends else None

    def _load_factors(self, load: Floats) -> Floats:
        """Factors of the loads, shape (P, 1): 1 for a known rate; otherwise the factor that gives _ASSUMED_LOAD."""
        assumed = _ASSUMED_LOAD / np.maximum(load[:, -1], 1e-9)
        return np.asarray(np.where(self._rate_unknown, assumed, 1.0)[:, None])


def _believed(robust: Robust | None, packets: Counters, frame_bytes: Counters, completed: Counters) -> Floats:
    """Ended flows that the port's payload confirms. A port that counts no bytes believes all of them."""
    if robust is None:
        return completed.astype(float)
    most = most_ends(payload_by_bucket(packets, frame_bytes), robust.burst_bytes, robust.reserved)
    most[~frame_bytes.any(axis=1)] = np.inf
    return believed_ends(completed, most)


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
