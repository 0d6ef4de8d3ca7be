# SPDX-License-Identifier: Apache-2.0
"""The agent's decisions, with the port program replaced by a dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY

import pytest

import topologies
from dataplane.port import PortSettings
from policy.agents import (
    NO_SETTINGS,
    AgentSettings,
    QueueCounters,
    heartbeat_document,
    heartbeat_from,
)
from policy.behaviour import PortBehaviour
from policy.desired import Policy
from policy.entries import write
from policy.errors import FieldError, SluiceError
from policy.graph import Topology
from policy.schemes import SCHEMES
from runtime.command import CommandFailed
from runtime.http_client import Answer, ServerAway
from topologies.commands import hosts as commands
from topologies.port_agent import PortAgent, ask, last_behaviour
from topologies.settings import Settings, write_json


@dataclass
class FakeProgram:
    on: dict[str, PortSettings] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    flow_queues: set[str] = field(default_factory=set)

    def without_flow_queues(self, ifnames: Iterable[str]) -> set[str]:
        return set(ifnames) - self.flow_queues

    def make_flow_queues(self, ifname: str) -> None:
        assert ifname not in self.on, "under a program that chooses among them they are there already"
        if ifname not in self.gone:
            self.flow_queues.add(ifname)

    def attach(self, ifname: str, settings: PortSettings) -> None:
        if ifname in self.gone:
            raise SluiceError(f"there is no port {ifname}")
        self.on[ifname] = settings

    def set(self, ifname: str, settings: PortSettings) -> None:
        assert ifname in self.on
        self.on[ifname] = settings

    def is_attached(self, ifname: str) -> bool:
        return ifname in self.on

    def late_ns(self, ifname: str) -> int:
        return 6

    def counters(self, ifname: str) -> tuple[QueueCounters, ...]:
        return (QueueCounters(1, 2, 3, 4, 5),) * 8


class FakeDatabase:
    """Queue rows, as ovs-vsctl shows and sets them."""

    def __init__(self, graph: Topology) -> None:
        self.min_rate = {(p.interface, q): commands.MIN_RATE_BPS for p in graph.ports for q in range(8)}
        self.transactions = 0
        self.away = False

    def __call__(self, argv: list[str]) -> str:
        if self.away:
            raise CommandFailed(argv, 1, "database connection failed")
        if argv == commands.LIST_QUEUES.argv:
            return json.dumps({"data": [self._row(*key) for key in self.min_rate]})
        self.transactions += 1
        for clause in "\0".join(argv).split("\0--\0")[1:]:
            _, table, uuid, setting = clause.split("\0")
            assert table == "Queue"
            interface, queue = uuid.split("/")
            self.min_rate[interface, int(queue)] = int(setting.removeprefix("other_config:min-rate="))
        return ""

    def _row(self, interface: str, queue: int) -> list[Any]:
        ids = [["interface", interface], ["queue", str(queue)]]
        config = [["min-rate", str(self.min_rate[interface, queue])], ["priority", str(queue)]]
        return [["uuid", f"{interface}/{queue}"], ["map", ids], ["map", config]]


@pytest.fixture
def agent(tmp_path) -> PortAgent:
    graph = topologies.build("dumbbell", left=1, right=1, host_rate_bps=10**7, core_rate_bps=2 * 10**7)
    program: Any = FakeProgram()
    behaviour = PortBehaviour(None, 100_000)
    return PortAgent(Settings(tmp_path, tmp_path), graph, program, FakeDatabase(graph), behaviour)


def test_reconcile__each_port_with_its_own_rate(agent):
    agent.reconcile()
    assert agent.program.on == {
        "s1-eth1": PortSettings(10**7, None, 100_000),
        "s1-eth2": PortSettings(2 * 10**7, None, 100_000),
        "s2-eth1": PortSettings(10**7, None, 100_000),
        "s2-eth2": PortSettings(2 * 10**7, None, 100_000),
    }


def test_reconcile__only_what_is_missing_and_counts_it(agent):
    agent.reconcile()
    del agent.program.on["s1-eth2"]
    agent.reconcile()
    agent.reconcile()
    assert agent.attached == {"s1-eth1": 1, "s1-eth2": 2, "s2-eth1": 1, "s2-eth2": 1}


def test_reconcile__a_port_that_is_gone_is_taken_up_when_it_is_back(agent):
    agent.program.gone = {"s1-eth1"}
    agent.reconcile()
    assert "s1-eth1" not in agent.program.on
    agent.program.gone = set()
    agent.reconcile()
    assert "s1-eth1" in agent.program.on


def test_set_behaviour__reaches_attached_ports_and_those_attached_later(agent):
    agent.program.gone = {"s2-eth1"}
    agent.reconcile()
    agent.set_behaviour(PortBehaviour(30_000, 200_000))
    agent.program.gone = set()
    agent.reconcile()
    assert {(s.mark_bytes, s.buffer_bytes) for s in agent.program.on.values()} == {(30_000, 200_000)}


def test_set_behaviour__impossible_values_change_nothing(agent):
    agent.reconcile()
    before = dict(agent.program.on)
    with pytest.raises(FieldError):
        agent.set_behaviour(PortBehaviour(-1, 200_000))
    assert agent.program.on == before
    assert agent.behaviour == PortBehaviour(None, 100_000)


def test_obey__before_the_first_policy_there_is_nothing_to_do(agent):
    agent.obey(NO_SETTINGS)
    assert agent.behaviour == PortBehaviour(None, 100_000)


def test_obey__a_policy_without_marking_ends_marking(agent):
    agent.obey(AgentSettings(3, ports=PortBehaviour(97_500)))
    assert (agent.behaviour.mark_bytes, agent.policy_version) == (97_500, 3)
    agent.obey(AgentSettings(4, ports=PortBehaviour()))
    assert (agent.behaviour.mark_bytes, agent.policy_version) == (None, 4)


def test_obey__another_way_of_marking_replaces_the_one_before(agent):
    """Each way in turn, from the answer that the web process makes of a policy to the settings of a port."""
    agent.reconcile()
    for name, threshold in (("dctcp", 65), ("datcp", None), ("hull", None), ("datcp", None), ("d2tcp", 9)):
        policy = Policy.from_document(
            {"scheme": name, **({"mark_at": f"{threshold}pkt"} if threshold else {})}
        )
        agent.obey(AgentSettings.of(7, policy))
        port = agent.program.on["s1-eth1"]
        assert {
            "dctcp": (97_500, None, None),
            "datcp": (80_000, 120_000, None),
            "hull": (None, None, 6_000),
            "d2tcp": (13_500, None, None),
        }[name] == (port.mark_bytes, port.mark_max_bytes, port.phantom_mark_bytes)
        assert port.buffer_bytes == 360_000


@pytest.mark.parametrize("name", SCHEMES)
def test_obey__every_scheme_is_possible_on_a_port(agent, name):
    agent.reconcile()
    agent.obey(AgentSettings.of(1, Policy.from_document({"scheme": name})))
    marks = agent.behaviour.mark_bytes is not None or agent.behaviour.phantom_mark_bytes is not None
    assert marks == (SCHEMES[name].marking != "none")


class FakeWeb:
    """Answers every heartbeat in the same way."""

    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer
        self.heard: list[Any] = []

    def post(self, path: str, body: bytes) -> Answer:
        self.heard.append((path, json.loads(body)))
        if self.answer is None:
            raise ServerAway("nobody listens")
        return self.answer


def test_ask__sends_the_heartbeat_and_reads_the_settings(agent):
    wanted = AgentSettings.of(7, Policy.from_document({"scheme": "fish"}))
    web: Any = FakeWeb(Answer(200, json.dumps(write(wanted)).encode()))
    assert ask(web, agent.report()) == wanted
    assert web.heard == [("/api/v1/agents/port-agent", heartbeat_document(agent.report()) | {"at": ANY})]


@pytest.mark.parametrize(
    "answer", [None, Answer(404, b"{}"), Answer(200, b"<html>"), Answer(200, b'{"version": 7}')]
)
def test_ask__no_usable_answer_is_none(agent, answer):
    web: Any = FakeWeb(answer)
    assert ask(web, agent.report()) is None


def test_read_behaviour_file__once_for_each_time_it_is_written(agent):
    agent.reconcile()
    write_json(agent.settings.behaviour_file, write(PortBehaviour(5_000, 50_000)))
    agent.read_behaviour_file()
    assert agent.behaviour.mark_bytes == 5_000
    agent.set_behaviour(PortBehaviour(6_000, 50_000))
    agent.read_behaviour_file()
    assert agent.behaviour.mark_bytes == 6_000


def test_report__counters_by_port_and_queue(agent):
    agent.reconcile()
    report = agent.report()
    assert set(report.ports) == {"s1:1", "s1:2", "s2:1", "s2:2"}
    assert report.ports["s1:1"][7] == QueueCounters(1, 2, 3, 4, 5)
    assert report.late_ns == dict.fromkeys(report.ports, 6)
    assert heartbeat_from(json.loads(json.dumps(heartbeat_document(report)))) == report


def test_reconcile__flow_queues_come_before_the_program_that_chooses_among_them(agent):
    agent.reconcile()
    assert agent.program.flow_queues == {port.interface for port in agent.graph.ports}


def test_obey__a_core_port_has_a_threshold_of_its_own(agent):
    agent.reconcile()
    agent.obey(
        AgentSettings.of(
            1, Policy.from_document({"scheme": "dctcp", "mark_at": "9pkt", "mark_at_core": "65pkt"})
        )
    )
    marks = {name: settings.mark_bytes for name, settings in agent.program.on.items()}
    assert marks == {"s1-eth1": 13_500, "s1-eth2": 97_500, "s2-eth1": 13_500, "s2-eth2": 97_500}
    agent.obey(AgentSettings.of(2, Policy.from_document({"scheme": "dctcp", "mark_at": "9pkt"})))
    assert {settings.mark_bytes for settings in agent.program.on.values()} == {13_500}


def test_obey__flow_queues_as_many_as_there_are(agent):
    agent.reconcile()
    agent.obey(AgentSettings.of(1, Policy.from_document({"scheme": "fish", "release": "3ms"})))
    assert {(s.sub_queues, s.release_ns) for s in agent.program.on.values()} == {(8, 3_000_000)}
    agent.obey(AgentSettings.of(2, Policy.from_document({"scheme": "fish", "sub_queues": 4})))
    assert {s.sub_queues for s in agent.program.on.values()} == {4}
    agent.obey(AgentSettings.of(3, Policy.from_document({"scheme": "pias"})))
    assert {s.sub_queues for s in agent.program.on.values()} == {None}


def test_obey__shares_of_each_ports_own_rate_in_one_transaction(agent):
    agent.reconcile()
    assert agent.ovs.transactions == 0, "they are strict to begin with"
    policy = Policy.from_document(
        {"scheme": "pias", "queues": 2, "thresholds": ["10KB"], "shares": [0.9, 0.1]}
    )
    agent.obey(AgentSettings.of(1, policy))
    assert agent.ovs.transactions == 1
    assert [agent.ovs.min_rate["s1-eth1", q] for q in range(3)] == [9_000_000, 1_000_000, 12_000]
    assert [agent.ovs.min_rate["s1-eth2", q] for q in range(3)] == [18_000_000, 2_000_000, 12_000]
    agent.obey(AgentSettings.of(2, Policy.from_document({"scheme": "pias"})))
    assert set(agent.ovs.min_rate.values()) == {12_000}
    assert agent.state().shares_stand


def test_obey__shares_that_cannot_be_set_are_set_later(agent):
    agent.reconcile()
    agent.ovs.away = True
    agent.obey(AgentSettings.of(1, Policy.from_document({"scheme": "sluice"})))
    assert not agent.state().shares_stand
    agent.ovs.away = False
    agent.reconcile()
    assert agent.state().shares_stand
    assert agent.ovs.min_rate["s1-eth1", 0] == 9_300_000


def test_last_behaviour__a_new_agent_goes_on_with_what_stands(agent):
    assert last_behaviour(agent.settings) == PortBehaviour()
    agent.reconcile()
    agent.obey(AgentSettings.of(1, Policy.from_document({"scheme": "sluice"})))
    write_json(agent.settings.port_agent_file, write(agent.report()))
    assert last_behaviour(agent.settings) == agent.behaviour
