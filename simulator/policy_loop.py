# SPDX-License-Identifier: Apache-2.0
"""The controller's part: counters of every switch port in, queue maps out, at each adjustment interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from policy.adaptation import PortAdaptation, PortCounters, adapt
from policy.desired import Policy
from policy.graph import Topology
from policy.queue_map import queue_map
from policy.tags import ATTAINED_BUCKETS, snap_to_edge
from simulator import _fabric
from simulator.layout import PS_PER_NS, PS_PER_S, Layout
from simulator.taps import ThresholdsMoved

NOTHING_YET = PortCounters.of_completed(np.zeros(ATTAINED_BUCKETS, np.int64))
"""Every port's counters when a run begins."""


class PolicyLoop:
    """One policy over all ports of a fabric. Hosts' own ports keep the thresholds of the start."""

    def __init__(
        self,
        policy: Policy,
        topology: Topology,
        fabric: _fabric.Fabric,
        layout: Layout,
        moved: Callable[[ThresholdsMoved], None],
    ) -> None:
        self._policy, self._fabric, self._layout, self._moved = policy, fabric, layout, moved
        self._ports = topology.ports
        self._adaptations = [PortAdaptation(policy, port.rate_bps) for port in topology.ports]
        for adaptation in self._adaptations:
            adaptation.observe(0, NOTHING_YET)
        queues = queue_map(policy, policy.thresholds)
        for number in range(len(topology.hosts) + len(topology.ports)):
            fabric.set_queue_of(number, queues)
        self._in_force = {port.id: _snapped(policy.thresholds) for port in topology.ports}
        for port_id, thresholds in self._in_force.items():
            moved(ThresholdsMoved(0.0, port_id, thresholds, 0))

    @property
    def adapts(self) -> bool:
        return self._policy.definition.threshold_rule.adapts

    def adjust(self, now_ps: int) -> None:
        """With the counters that a controller would get by OpenFlow."""
        counters = self._fabric.tag_counters().astype(np.int64)
        for port, adaptation in zip(self._ports, self._adaptations, strict=True):
            adaptation.observe(now_ps // PS_PER_NS, PortCounters(*counters[self._layout.port[port.id]].T))
        wanted = adapt(self._adaptations)
        for port, adaptation, thresholds in zip(self._ports, self._adaptations, wanted, strict=True):
            if thresholds is not None and _snapped(thresholds) != self._in_force[port.id]:
                self._move(port.id, thresholds, adaptation.flows, now_ps)

    def _move(self, port_id: str, thresholds: tuple[int, ...], flows: int, now_ps: int) -> None:
        self._in_force[port_id] = _snapped(thresholds)
        self._fabric.set_queue_of(self._layout.port[port_id], queue_map(self._policy, thresholds))
        self._moved(ThresholdsMoved(now_ps / PS_PER_S, port_id, self._in_force[port_id], flows))


def _snapped(thresholds: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(snap_to_edge(threshold) for threshold in thresholds)
