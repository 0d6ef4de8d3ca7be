# SPDX-License-Identifier: Apache-2.0
"""What the controller does at switches to learn a network that it did not make, and to leave it.

It belongs to the application's thread (app.py) and never waits. `network.py` decides what follows from the answers.
"""

from collections.abc import Callable
from typing import TypeAlias

from sluice.controller.connection import Connection
from sluice.controller.connection_table import ConnectionTable
from sluice.controller.network import Description, NetworkKeeper
from sluice.controller.openflow import change, request
from sluice.controller.openflow.answers import Neighbour, PortDescription, PortStatus
from sluice.controller.reporting import Reporter
from sluice.policy.network.graph import Topology

PortAnswer: TypeAlias = PortDescription | PortStatus | Neighbour


class Survey:
    def __init__(
        self,
        network: NetworkKeeper,
        connections: ConnectionTable[Connection],
        reporter: Reporter,
        generation: Callable[[], int | None],
    ) -> None:
        """`generation` of the lease that this controller holds; None while another one leads."""
        self._connections, self._reporter, self._generation = connections, reporter, generation
        self.network, self.is_leaving = network, False

    def turn(self, now_ns: int) -> None:
        """Send the LLDP frames that are due, and record what they and the switches have shown."""
        for dpid, connection in self._connections.items():
            frames = b"".join(self.network.announcements(dpid, now_ns))
            if frames:
                connection.send(frames)
        if (news := self.network.news(now_ns)) is not None:
            self._reporter.network(news)

    def take(self, connection: Connection, answer: PortAnswer, now_ns: int) -> None:
        """Take what a switch reports of its ports, but not from a second switch with the same datapath id."""
        if isinstance(answer, PortDescription):
            connection.described = answer
        dpid = connection.id
        if self._connections.established(dpid) is not connection:
            return
        match answer:
            case PortDescription():
                self.network.described(dpid, answer, now_ns)
            case PortStatus():
                self.network.port_changed(dpid, answer, now_ns)
            case Neighbour():
                self.network.neighbour(dpid, answer, now_ns)

    def admitted(self, connection: Connection, now_ns: int) -> None:
        """The connection represents its datapath id from now on."""
        self.network.connected_from(connection.host)
        if connection.described is not None:  # during a contest
            self.take(connection, connection.described, now_ns)

    # ── Switches that are not in the graph ──────────────────────────────────────────────────────

    def adopt(self, description: Description, topology: Topology | None, now_ns: int) -> Topology | None:
        """Take the description of the store. Returns the network that the controller must leave now."""
        self.network.adopt(description, topology, now_ns)
        self.is_leaving = description.withdrawn
        return topology if self.is_leaving and topology and topology.learns else None

    def leave(self, topology: Topology) -> None:
        """Remove all rules from the switches of a network."""
        first_tables = {switch.dpid: switch.first_table for switch in topology.switches}
        for dpid, connection in self._connections.items():
            if dpid in first_tables:
                self.release(connection, bridges=first_tables[dpid] == 0)

    def release(self, connection: Connection, *, bridges: bool) -> None:
        """Remove the rules from a switch. With `bridges`, it forwards by itself then."""
        if (role := self._role(connection)) is not None:
            connection.send(role + change.release_message(connection, bridges=bridges))

    def ask_for_links(self, dpid: int, connection: Connection) -> None:
        """Let a switch that is not in the graph yet return LLDP frames. Its other rules stay."""
        if self.network.wants(dpid) and (role := self._role(connection)) is not None:
            first_table = self.network.first_table(dpid)
            connection.send(role + change.lldp_rule_message(connection, first_table))

    def _role(self, connection: Connection) -> bytes | None:
        """Return the request for mastership of a switch; None while another controller leads."""
        generation = self._generation()
        if generation is None:
            return None
        data: bytes = request.role_request(connection, request.Role.MASTER, generation).data
        return data
