# SPDX-License-Identifier: Apache-2.0
"""What the controller takes from a switch, if two connections claim one datapath id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from sluice.controller.connection import Connection
from sluice.controller.connection_table import ConnectionTable
from sluice.controller.network import Description, NetworkKeeper
from sluice.controller.openflow.answers import PortDescription, PortReason, PortStatus
from sluice.controller.reporting import Reporter
from sluice.controller.survey import Survey
from sluice.policy.network.description import SeenPort

DPID = 0xF1


@dataclass(eq=False)
class FakeConnection:
    host: str
    id: int = DPID
    heard_at_s: float = 0.0
    described: PortDescription | None = None
    sent: list[bytes] = field(default_factory=list)

    def probe(self) -> None:
        """The peer does not answer."""

    def send(self, data: bytes) -> bool:
        self.sent.append(data)
        return True


def connection(host: str) -> Connection:
    return cast(Connection, FakeConnection(host))


def description(name: str) -> PortDescription:
    return PortDescription("br0", (SeenPort(1, name, 10**9, True),))


def survey(connections: ConnectionTable[Connection]) -> Survey:
    made = Survey(NetworkKeeper(), connections, cast(Reporter, None), lambda: 1)
    made.network.adopt(Description(None), None, 0)
    return made


def ports_of(made: Survey) -> list[str]:
    return [port.name for port in made.network.sightings().switches[DPID].ports]


def test_a_second_switch_with_one_id_does_not_replace_the_ports_of_the_first() -> None:
    connections: ConnectionTable[Connection] = ConnectionTable()
    first, second = connection("192.0.2.1"), connection("192.0.2.2")
    made = survey(connections)
    connections.connected(DPID, first, 0.0)
    made.take(first, description("eth1"), 0)
    connections.connected(DPID, second, 1.0)
    made.take(second, description("other"), 1)
    made.take(second, PortStatus(PortReason.DELETE, SeenPort(1, "eth1", 0, False)), 2)
    assert ports_of(made) == ["eth1"]


def test_a_switch_that_connects_again_is_described_when_it_is_admitted() -> None:
    connections: ConnectionTable[Connection] = ConnectionTable()
    lost, again = connection("192.0.2.1"), connection("192.0.2.1")
    made = survey(connections)
    connections.connected(DPID, lost, 0.0)
    made.take(lost, description("eth1"), 0)
    connections.connected(DPID, again, 1.0)
    made.take(again, description("eth2"), 1)
    assert ports_of(made) == ["eth1"], "the contest is open"
    connections.settle(99.0)
    made.admitted(again, 2)
    assert ports_of(made) == ["eth2"]


def test_a_refused_switch_that_gets_an_id_of_its_own_is_no_problem_any_more() -> None:
    connections: ConnectionTable[Connection] = ConnectionTable()
    made = survey(connections)
    made.network.duplicate(DPID, "192.0.2.2", 0)
    made.admitted(connection("192.0.2.2"), 1)
    assert not made.network.sightings().duplicates
