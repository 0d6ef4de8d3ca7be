# SPDX-License-Identifier: Apache-2.0
"""The controller's part in the simulator: at each interval, it reads the ports' counters and installs queue maps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sluice.policy.network.graph import INGRESS_GROUPS, Topology
from sluice.policy.schema.desired import Policy, host_queue_map, queue_map
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.policy.units import PS_PER_NS, PS_PER_S
from sluice.simulator import _fabric
from sluice.simulator.layout import Layout
from sluice.simulator.taps import ThresholdsMoved


class PolicyLoop:
    """One policy on all ports of a fabric. Hosts' own ports keep their first thresholds."""

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
        self._rows = np.asarray([layout.port[port.id] for port in topology.ports])
        start = [policy.fixed_at(port.id) or policy.thresholds for port in topology.ports]
        self._adaptation = Adaptation(policy, [port.rate_bps for port in topology.ports], start)
        self._adaptation.held = np.asarray(
            [policy.override_of(port.id) is not None for port in topology.ports], bool
        )
        self._adaptation.observe(0, PortCounters.zero(len(topology.ports)))
        queues = queue_map(policy, policy.thresholds)
        for number in layout.host.values():
            fabric.set_queue_of(number, host_queue_map(policy))
        for number in layout.port.values():
            fabric.set_queue_of(number, queues)
        for row, port in enumerate(topology.ports):
            if start[row] != policy.thresholds:
                fabric.set_queue_of(layout.port[port.id], queue_map(policy, start[row]))
            moved(ThresholdsMoved(0.0, port.id, self._adaptation.thresholds(row), 0))

    @property
    def adapts(self) -> bool:
        return self._policy.definition.threshold_rule.adapts

    def adjust(self, now_ps: int) -> None:
        """Adjust all thresholds by the counters that a controller would read by OpenFlow."""
        by_tag = self._fabric.tag_counters()[self._rows].astype(np.int64)
        ended = self._fabric.end_counters(INGRESS_GROUPS)[self._rows].astype(np.int64)
        counters = PortCounters(by_tag[:, :, 0], by_tag[:, :, 1], ended)
        self._adaptation.observe(now_ps // PS_PER_NS, counters)
        moved = np.flatnonzero(self._adaptation.adjust())
        flows = self._adaptation.flows if moved.size else ()
        for row in moved:
            self._move(int(row), int(flows[row]), now_ps)

    def _move(self, row: int, flows: int, now_ps: int) -> None:
        port_id, thresholds = self._ports[row].id, self._adaptation.thresholds(row)
        self._fabric.set_queue_of(self._layout.port[port_id], queue_map(self._policy, thresholds))
        self._moved(ThresholdsMoved(now_ps / PS_PER_S, port_id, thresholds, flows))
