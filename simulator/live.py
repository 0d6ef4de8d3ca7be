# SPDX-License-Identifier: Apache-2.0
"""A fabric that a caller moves step by step. Between two steps the caller adds flows, reads counters and
changes the policy.

Nothing here reads a clock: the caller says how far to go. `run.py` runs a whole scenario instead.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sluice.policy.controls import Need
from sluice.policy.network.graph import INGRESS_GROUPS, Port, Topology
from sluice.policy.schema.desired import Policy, QueueMap, host_queue_map
from sluice.policy.units import PS_PER_S
from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario
from sluice.simulator import _fabric
from sluice.simulator.flows import Ledger, Transports, fabric_columns
from sluice.simulator.limits import check_paths
from sluice.simulator.network import add_transports, make_fabric, on_link, port_maker, transport_settings
from sluice.simulator.taps import Columns

Counters = npt.NDArray[np.int64]


class LiveFabric:
    """The network of a scenario, under the scenario's policy at first."""

    def __init__(self, scenario: Scenario, topology: Topology) -> None:
        self._scenario, self._topology = scenario, topology
        self._grants_rates = False
        self._ledger = Ledger()
        self._adopt(scenario.policy)
        self._fabric, self._layout = make_fabric(scenario, topology, self._counting_port)
        self._transports_of: dict[str, Transports] = {}
        self._use(scenario.policy)

    # ── Time ────────────────────────────────────────────────────────────────────────────────────

    @property
    def now_ps(self) -> int:
        return self._fabric.now_ps

    def advance(self, until_ps: int, events: int) -> bool:
        """Run until that time, but for at most so many events. Return whether it has reached the time."""
        return self._fabric.run(until_ps, events)

    # ── Flows ───────────────────────────────────────────────────────────────────────────────────

    def add(self, batches: Iterable[FlowBatch]) -> None:
        """Add flows. Their numbers and starts must not decrease. A flow that should have started by now
        starts now."""
        for batch in batches:
            columns = fabric_columns(batch, self._transports)
            columns["start_ps"] = np.maximum(columns["start_ps"], self.now_ps)
            self._fabric.add_flows(**columns)
            self._ledger.add(batch)

    def ended(self) -> Columns:
        """Return the flows that have ended since the last call, as `Taps.flows` describes them."""
        return self._ledger.joined(self._fabric.take_results())

    def under_way(self) -> Columns:
        """Return `number` and the columns of the schedule of the flows that have started and not ended.

        It has also those whose end `ended` has not returned yet.
        """
        return self._ledger.before(self.now_ps / PS_PER_S)

    def unfinished(self) -> Columns:
        """Return the flows that have not ended, and forget them. Flows that have not started are left out."""
        started = self._ledger.joined(self._fabric.unfinished())
        self._ledger.take(self._ledger.numbers)
        return started

    # ── Counters ────────────────────────────────────────────────────────────────────────────────

    def tag_counters(self) -> Counters:
        """Return packets, bytes and completed flows so far, by port of the topology and tag, shape (P, 62, 3)."""
        return self._of_ports(self._fabric.tag_counters())

    def end_counters(self) -> Counters:
        """Return completed flows so far, by port, group of ingress ports and bucket, shape (P, INGRESS_GROUPS, 40)."""
        return self._of_ports(self._fabric.end_counters(INGRESS_GROUPS))

    def queue_counters(self) -> Counters:
        """Return packets and bytes sent, packets marked and dropped so far, by port and queue, shape (P, 8, 4)."""
        return self._of_ports(self._fabric.queue_counters())

    def _of_ports(self, counters: npt.NDArray[np.uint64]) -> Counters:
        return counters[len(self._topology.hosts) :].astype(np.int64)

    # ── The policy ──────────────────────────────────────────────────────────────────────────────

    def apply(self, policy: Policy) -> None:
        """Change the hosts, and all of each port but its queue map. Active flows keep their congestion
        control. Raises FieldError if the scenario's settings exclude the policy."""
        check_paths(self._scenario, policy)
        self._adopt(policy)
        self._fabric.change_transport(transport_settings(self._scenario, policy))
        for host in self._topology.hosts:
            self._change(self._layout.host[host.name], self._topology.edge_port(host.name), of_host=True)
        for port in self._topology.ports:
            self._change(self._layout.port[port.id], port, of_host=False)
        self._use(policy)

    def map_queues(self, port_id: str, queues: QueueMap) -> None:
        """Set the queue of each tag at a port of a switch."""
        self._fabric.set_queue_of(self._layout.port[port_id], queues)

    def _adopt(self, policy: Policy) -> None:
        self._make = port_maker(policy, self._scenario.simulator)
        self._grants_rates |= Need.EXPLICIT_RATES in policy.needs

    def _counting_port(self, link: Port, of_host: bool) -> tuple[_fabric.PortSettings, _fabric.Discipline]:
        """Return a port that counts whatever a controller and an agent read under any policy.

        A port that once granted rates continues to do so, because flows of that policy may still ask. A host's port
        tells its senders what has left.
        """
        settings, discipline = self._make(link, of_host)
        settings.count_tags = settings.count_queues = not of_host
        settings.tells_hosts = of_host
        settings.traces = False
        settings.grants_rates = settings.grants_rates or self._grants_rates
        return settings, discipline

    def _change(self, number: int, link: Port, *, of_host: bool) -> None:
        settings, discipline = self._counting_port(link, of_host)
        self._fabric.change_port(number, on_link(settings, link), discipline)

    def _use(self, policy: Policy) -> None:
        """Give flows that start now the settings of the policy's scheme, and hosts the policy's queues."""
        if policy.scheme not in self._transports_of:
            self._transports_of[policy.scheme] = add_transports(self._fabric, self._scenario, policy)
        self._transports = self._transports_of[policy.scheme]
        queues = host_queue_map(policy)
        for number in self._layout.host.values():
            self._fabric.set_queue_of(number, queues)
