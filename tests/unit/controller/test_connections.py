# SPDX-License-Identifier: Apache-2.0
"""The one live connection of each datapath id, and what the controller takes from a switch."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from sluice.controller.connection import Connection
from sluice.controller.connection_table import PROBE_S, Admitted, ConnectionTable, Lost, Refused
from sluice.controller.network import Description, NetworkKeeper
from sluice.controller.openflow.answers import PortDescription, PortReason, PortStatus
from sluice.controller.reporting import Reporter
from sluice.controller.survey import Survey
from sluice.policy.network.description import SeenPort


class Switch:
    def __init__(self, heard_at_s: float = 0.0) -> None:
        self.heard_at_s, self.probes = heard_at_s, 0

    def probe(self) -> None:
        self.probes += 1


@pytest.fixture
def table() -> ConnectionTable[Switch]:
    return ConnectionTable()


def contested(table: ConnectionTable[Switch]) -> tuple[Switch, Switch]:
    """Return an established connection and a new one that claims its datapath id at 10 s."""
    old, new = Switch(heard_at_s=9.9), Switch()
    assert table.connected(1, old, 5.0) == [Admitted(old)]
    assert table.connected(1, new, 10.0) == []
    return old, new


def test_the_established_one_is_probed_and_stays_if_it_answers(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert old.probes == 1
    assert table.settle(10.1) == []
    old.heard_at_s = 10.2
    assert table.settle(10.3) == [Refused(old, new)]
    assert table.settle(100.0) == []
    assert table.items() == [(1, old)]


def test_the_newcomer_replaces_one_that_does_not_answer(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert table.settle(10.0 + PROBE_S) == []
    assert table.settle(10.01 + PROBE_S) == [Lost(old, silent=True), Admitted(new)]
    assert table.items() == [(1, new)]
    assert table.ended(1, old) == [], "its end is no news"


def test_a_third_one_is_refused_while_the_contest_is_open(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    third = Switch()
    assert table.connected(1, third, 10.1) == [Refused(old, third)]
    assert table.ended(1, third) == []
    assert table.settle(20.0) == [Lost(old, silent=True), Admitted(new)]


def test_if_the_newcomer_ends_the_established_one_stays(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert table.ended(1, new) == []
    assert table.settle(100.0) == []
    assert table.items() == [(1, old)]


def test_if_the_established_one_ends_the_newcomer_is_admitted_at_once(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert table.ended(1, old) == [Lost(old, silent=False), Admitted(new)]
    assert table.settle(100.0) == []
    assert table.ended(1, new) == [Lost(new, silent=False)]
    assert table.items() == []


# ── What a switch reports, if two connections claim one datapath id ────────────────────────────────


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
