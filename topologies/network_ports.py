# SPDX-License-Identifier: Apache-2.0
"""The port agent on a machine whose switches exist already: it follows the network that the web process knows."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from sluice.policy.network.graph import Port, Topology
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.schema.field_kinds import name_port
from sluice.runtime.command import CommandFailed
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.topologies.own_ports import OwnPorts
from sluice.topologies.port_agent import PortAgent
from sluice.topologies.real_port import FASTEST_BPS, fit, mtu

log = logging.getLogger(__name__)

FOLLOW_S = 2.0
EMPTY = Topology("none", (), (), ())
WATCHING = PortBehaviour(acts_at=())
"""Until the first policy, the ports keep the queues that they have."""


class NetworkPorts:
    """Gives a port agent the ports of this machine, and those ports their queues.

    All ports of the network have the port program, because it removes the priority tag. Only ports at which the policy
    acts have queues of Sluice.
    """

    def __init__(self, agent: PortAgent, own: OwnPorts) -> None:
        self._agent, self._own = agent, own
        agent.classes_made = self._fit
        self._mtu: dict[str, int] = {}
        """Interface → the MTU that its queues fit."""
        self._due_s = 0.0

    def follow(self, web: HttpClient | None) -> None:
        """Look for another network from time to time, and adapt the ports to it and to the policy."""
        if web is None or time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + FOLLOW_S
        try:
            topology = _topology(web)
            self._adapt(topology)
        except ServerAway as away:
            log.debug("the web process is away, so the ports stay as they are: %s", away)
        except CommandFailed as error:
            log.warning("Open vSwitch does not answer: %s", error)

    def release(self) -> None:
        """Give all ports back as they were before the first agent, also those of an agent that has ended."""
        self._adapt(EMPTY)
        for interface in self._own.interfaces():
            self._agent.program.release(interface)

    def _adapt(self, topology: Topology) -> None:
        agent = self._agent
        ports = tuple(port for port in self._own.here(topology) if port.managed) if topology.learns else ()
        names = {port.interface for port in ports}
        for port in agent.graph.ports:
            if port.interface not in names:
                agent.program.detach(port.interface)
                agent.attached.pop(port.interface, None)
        agent.graph = replace(topology, ports=ports)
        acting = [port for port in ports if name_port(agent.behaviour.acts_at, port.id)]
        agent.unqueued = frozenset(names - {port.interface for port in acting})
        self._own.give_back(self._own.held() - {port.interface for port in acting})
        self._own.take(acting, agent.behaviour.shares)
        agent.problems = self._own.problems(ports)
        for port in acting:
            if port.interface in agent.attached and not self._is_fitted(port):
                self._fit(port)

    def _is_fitted(self, port: Port) -> bool:
        """Whether the queues fit. Above FASTEST_BPS, each change of shares makes Open vSwitch set wrong rates again."""
        if port.rate_bps > FASTEST_BPS:
            return False
        try:
            return self._mtu.get(port.interface) == mtu(port.interface)
        except OSError:
            return True  # the interface is gone

    def _fit(self, port: Port) -> None:
        try:
            fit(port, self._agent.behaviour.shares)
            self._mtu[port.interface] = mtu(port.interface)
        except (CommandFailed, OSError) as error:
            log.warning("%s: cannot fit its queues to its rate and MTU: %s", port.id, error)


def _topology(web: HttpClient) -> Topology:
    """Return the network, which is empty if there is none. Raises ServerAway."""
    answer = web.get("/api/v1/topology")
    if not answer.ok:
        raise ServerAway(f"it answers {answer.status}")
    document = answer.json()["topology"]
    return Topology.from_document(document) if document else EMPTY
