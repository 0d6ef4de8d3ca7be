# SPDX-License-Identifier: Apache-2.0
"""The policy in the loop, for one port: counters in, demotion thresholds out, for the controller and the simulator.

    port = PortAdaptation(policy, rate_bps)
    port.observe(now_ns, counters)        # as often as counters come, a few times a window at least
    port.thresholds()                     # at each adjustment interval

No clock and no I/O: `now_ns` may be of any clock that does not jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy import tags
from policy.desired import Policy
from policy.online_thresholds import Choice, delay_model, worthwhile_thresholds
from policy.port_traffic import Counters, Floats, PortTraffic, flow_sizes, load_of_tags, load_up_to
from policy.queue_map import queue_map, queue_of_level
from policy.schemes import ThresholdRule
from policy.thresholds import Counts, SlidingCounts, percentile_thresholds

_PACKETS, _BYTES, _COMPLETED = range(3)
_ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
_ASSUMED_LOAD = 0.8
"""Of a port whose rate is not known."""


Carried = tuple[Counters, Counters]
"""Packets and bytes that a port has sent, by tag."""


@dataclass(frozen=True)
class PortCounters:
    """A port's cumulative counters by tag, each of shape (62,)."""

    packets: Counters
    bytes: Counters
    """Frames, headers included."""
    completed: Counters
    """Packets with a FIN."""

    @classmethod
    def of_completed(cls, completed: Counts) -> PortCounters:
        """Of a switch that counts nothing but completed flows by bucket, shape (40,)."""
        by_tag = np.zeros(tags.TAG_COUNT, np.int64)
        by_tag[_ATTAINED] = completed
        return cls(np.zeros_like(by_tag), np.zeros_like(by_tag), by_tag)

    def with_carried(self, carried: Carried | None) -> PortCounters:
        """With these packets and bytes, where a switch counts them apart."""
        return self if carried is None else PortCounters(*carried, self.completed)


class PortAdaptation:
    """What one port has seen within the policy's window, and the thresholds that follow."""

    def __init__(
        self, policy: Policy, rate_bps: int | None = None, start: Sequence[int] | None = None
    ) -> None:
        """`rate_bps` of the port's link; `start`: thresholds in force, those of the policy unless given."""
        self._rate_bps = rate_bps
        self._window = SlidingCounts(policy.window_ms * 1_000_000)
        self._in_force = tuple(policy.thresholds if start is None else start)
        self._policy = policy

    def adopt(self, policy: Policy) -> None:
        """Go on under a policy of the same queues: with its window and percentiles, and what has been seen."""
        self._policy = policy
        self._window.window_ns = policy.window_ms * 1_000_000

    def observe(self, now_ns: int, counters: PortCounters) -> None:
        """Take the counters as they stand now. The first are a baseline."""
        together = np.stack([counters.packets, counters.bytes, counters.completed]).astype(np.int64)
        self._window.observe(now_ns, together)

    @property
    def flows(self) -> int:
        """Flows completed in the window; under online thresholds also those without a FIN, as the bytes tell."""
        if self._policy.definition.threshold_rule is ThresholdRule.ONLINE:
            return round(float(flow_sizes(_traffic([self])).flows[0])) if self._window.covered_ns else 0
        return int(self._completed.sum())

    @property
    def _completed(self) -> Counts:
        grown = self._window.grown
        return np.zeros(tags.ATTAINED_BUCKETS, np.int64) if grown is None else grown[_COMPLETED, _ATTAINED]

    def thresholds(self) -> tuple[int, ...] | None:
        """What the thresholds should be now, in bytes; None: not enough seen, keep what is there."""
        return adapt([self])[0]


def adapt(ports: Sequence[PortAdaptation]) -> list[tuple[int, ...] | None]:
    """`thresholds()` of many ports of one policy, faster than one by one."""
    if not ports:
        return []
    match ports[0]._policy.definition.threshold_rule:
        case ThresholdRule.PERCENTILE:
            return [_by_percentiles(port) for port in ports]
        case ThresholdRule.ONLINE:
            return _online(ports)
        case _:
            return [None] * len(ports)


def _by_percentiles(port: PortAdaptation) -> tuple[int, ...] | None:
    policy = port._policy
    if port.flows < policy.min_flows or not policy.percentiles:
        return None
    return percentile_thresholds(port._completed, policy.percentiles)


def _online(ports: Sequence[PortAdaptation]) -> list[tuple[int, ...] | None]:
    policy = ports[0]._policy
    answers: list[tuple[int, ...] | None] = [None] * len(ports)
    seen = [i for i, port in enumerate(ports) if port._window.covered_ns and port._in_force]
    if not seen:
        return answers
    traffic = _traffic([ports[i] for i in seen])
    sizes = flow_sizes(traffic)
    scale = _to_assumed_load([ports[i] for i in seen], load_up_to(traffic))
    model = delay_model(sizes, load_up_to(traffic) * scale, _before_levels(policy, traffic) * scale)
    chosen = worthwhile_thresholds(model, _edges([ports[i]._in_force for i in seen]))
    for i, edges, flows in zip(seen, chosen, sizes.flows, strict=True):
        if flows >= policy.min_flows:
            ports[i]._in_force = answers[i] = tuple(tags.EDGES_BYTES[k] for k in edges)
    return answers


def _edges(thresholds: Sequence[Sequence[int]]) -> Choice:
    return np.asarray([[tags.edge_index(threshold) for threshold in row] for row in thresholds], np.int64)


def _traffic(ports: Sequence[PortAdaptation]) -> PortTraffic:
    grown = np.stack([g for port in ports if (g := port._window.grown) is not None])
    return PortTraffic(
        packets=grown[:, _PACKETS],
        bytes=grown[:, _BYTES],
        completed=grown[:, _COMPLETED],
        seconds=np.asarray([port._window.covered_ns / 1e9 for port in ports]),
        rate_bps=np.asarray([float(port._rate_bps or 1) for port in ports]),
    )


def _to_assumed_load(ports: Sequence[PortAdaptation], load: Floats) -> Floats:
    """Factor of the loads: 1 where the rate is known; else what makes them the assumed load. Shape (P, 1)."""
    unknown = np.asarray([port._rate_bps is None for port in ports])
    factor = np.where(unknown, _ASSUMED_LOAD / np.maximum(load[:, -1], 1e-9), 1.0)
    return np.asarray(factor[:, None])


def _before_levels(policy: Policy, traffic: PortTraffic) -> Floats:
    """Load of traffic that shows no bytes sent (deadlines, known sizes) in queues before each level's, shape (P, L)."""
    queue_of = np.asarray(queue_map(policy, policy.thresholds))
    load = load_of_tags(traffic)
    load[:, _ATTAINED] = 0.0
    levels = range(len(policy.thresholds) + 1)
    return np.stack(
        [load[:, queue_of < queue_of_level(policy, level)].sum(axis=1) for level in levels], axis=1
    )
