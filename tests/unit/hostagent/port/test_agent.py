# SPDX-License-Identifier: Apache-2.0
"""The port agent's decisions. A dictionary replaces the port program."""

import json
import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sluice import topologies
from sluice.dataplane.port_settings import PortSettings
from sluice.hostagent.link import Traffic
from sluice.hostagent.port import agent as port_agent
from sluice.hostagent.port import queues
from sluice.hostagent.port.agent import PortAgent, last_behaviour, open_channel
from sluice.hostagent.port.machine_watch import MachineWatch
from sluice.hostagent.port.service import sole_agent
from sluice.hostagent.port.settings import PortAgentSettings, write_json
from sluice.hostagent.reporter import Channel
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.figures.validity import NO_DELAYS, MachineStatus
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy, PortBehaviour
from sluice.policy.schema.entries import write
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire import agents as wire
from sluice.policy.wire.agents import AgentSettings, QueueCounters
from sluice.runtime.command import CommandFailed
from sluice.runtime.http_client import Answer, ServerAway
from sluice.runtime.identity import Ticks
from tests.kit.heartbeats import port_heartbeat


@dataclass
class FakeProgram:
    on: dict[str, PortSettings] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    flow_queues: set[str] = field(default_factory=set)
    packets: int = 1
    went_first: list[str] = field(default_factory=list)

    def without_flow_queues(self, ifnames: Iterable[str]) -> set[str]:
        return set(ifnames) - self.flow_queues

    def make_flow_queues(self, ifname: str) -> None:
        assert ifname not in self.on, "the queues must exist before the program that chooses among them"
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

    def forwarding(self) -> tuple[int, ...]:
        return NO_DELAYS

    def counters(self, ifname: str) -> tuple[QueueCounters, ...]:
        return (QueueCounters(self.packets, 2, 3, 4, 5),) * 8

    def go_first(self, ifname: str) -> None:
        self.went_first.append(ifname)


class FakeDatabase:
    """Queue rows that ovs-vsctl lists and sets."""

    def __init__(self, graph: Topology) -> None:
        self.min_rate = {(p.interface, q): queues.MIN_RATE_BPS for p in graph.ports for q in range(8)}
        self.transactions = 0
        self.away = False

    def __call__(self, argv: list[str]) -> str:
        if self.away:
            raise CommandFailed(argv, 1, "database connection failed")
        if "list" in argv:
            headings = ["_uuid", "external_ids", "other_config"]
            return json.dumps({"headings": headings, "data": [self._row(*key) for key in self.min_rate]})
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


def settings(version: int, **policy: Any) -> AgentSettings:
    """Return the answer to a heartbeat under this policy."""
    return AgentSettings.of(version, Policy.from_document(policy))


@pytest.fixture
def graph() -> Topology:
    return topologies.build("dumbbell", left=1, right=1, host_rate_bps=10**7, core_rate_bps=2 * 10**7)


@pytest.fixture
def program() -> FakeProgram:
    return FakeProgram()


@pytest.fixture
def database(graph: Topology) -> FakeDatabase:
    return FakeDatabase(graph)


@pytest.fixture
def agent(tmp_path: Path, graph: Topology, program: FakeProgram, database: FakeDatabase) -> PortAgent:
    port_program: Any = program
    behaviour = PortBehaviour(None, 100_000)
    return PortAgent(PortAgentSettings(run_dir=tmp_path), graph, port_program, database, behaviour)


def test_report__judges_the_machine_once_it_watches(agent: PortAgent) -> None:
    agent.reconcile()
    assert agent.report().machine is None
    seconds = iter(range(100, 200, 5))
    agent.machine = MachineWatch(dict, lambda: Ticks(0, 1), lambda: next(seconds))
    assert agent.report().machine is None
    report = agent.report()
    assert report.machine == MachineStatus(5.0, 0.0)
    assert wire.heartbeat_from(wire.heartbeat_document(report)) == report


def test_reconcile__only_what_is_missing_and_counts_it(agent: PortAgent, program: FakeProgram) -> None:
    agent.reconcile()
    del program.on["s1-eth2"]
    agent.reconcile()
    agent.reconcile()
    assert agent.attached == {"s1-eth1": 1, "s1-eth2": 2, "s2-eth1": 1, "s2-eth2": 1}


def test_set_behaviour__reaches_attached_ports_and_those_attached_later(
    agent: PortAgent, program: FakeProgram
) -> None:
    program.gone = {"s2-eth1"}
    agent.reconcile()
    agent.set_behaviour(PortBehaviour(30_000, 200_000))
    program.gone = set()
    agent.reconcile()
    assert {(s.mark_bytes, s.buffer_bytes) for s in program.on.values()} == {(30_000, 200_000)}
    assert "s2-eth1" in program.on, "a port that is back is taken up"


def test_set_vlans__the_program_reads_the_queue_where_rules_write_it(
    agent: PortAgent, program: FakeProgram
) -> None:
    agent.reconcile()
    agent.set_vlans(known=True)
    assert all(settings.in_vlan_header for settings in program.on.values())
    agent.graph = replace(
        agent.graph, switches=tuple(replace(s, priority_tags=False) for s in agent.graph.switches)
    )
    assert not agent.desired(agent.graph.ports[0]).in_vlan_header, "the kernel datapath obeys set_queue"
    agent.set_vlans(known=False)
    assert not any(settings.in_vlan_header for settings in program.on.values())


def test_apply__a_new_way_of_marking_replaces_the_last(agent: PortAgent, program: FakeProgram) -> None:
    """Each way of marking in turn, from the web process's answer to the settings of a port."""
    agent.reconcile()
    for name, threshold in (("dctcp", 65), ("datcp", None), ("hull", None), ("datcp", None), ("d2tcp", 9)):
        marks = {"mark_at": f"{threshold}pkt"} if threshold else {}
        agent.apply(settings(7, scheme=name, **marks))
        port = program.on["s1-eth1"]
        assert {
            "dctcp": (97_500, None, None),
            "datcp": (80_000, 120_000, None),
            "hull": (None, None, 6_000),
            "d2tcp": (13_500, None, None),
        }[name] == (port.mark_bytes, port.mark_max_bytes, port.phantom_mark_bytes)
        assert port.buffer_bytes == 360_000


def test_apply__every_scheme_is_possible_on_a_port(agent: PortAgent) -> None:
    agent.reconcile()
    agent.apply(wire.NO_SETTINGS)
    assert agent.behaviour == PortBehaviour(None, 100_000), "there is no policy yet"
    for name, scheme in SCHEMES.items():
        agent.apply(settings(1, scheme=name))
        marks = agent.behaviour.mark_bytes is not None or agent.behaviour.phantom_mark_bytes is not None
        assert marks == (scheme.marking != "none")


def test_read_behaviour_file__once_for_each_time_it_is_written(agent: PortAgent) -> None:
    agent.reconcile()
    write_json(agent.settings.behaviour_file, write(PortBehaviour(5_000, 50_000)))
    agent.read_behaviour_file()
    assert agent.behaviour.mark_bytes == 5_000
    agent.set_behaviour(PortBehaviour(6_000, 50_000))
    agent.read_behaviour_file()
    assert agent.behaviour.mark_bytes == 6_000


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentLacking("s1-eth1 has no room"),
        SluiceError("s1-eth1 has no room"),
        CommandFailed(["tc"], 1, "s1-eth1 has no room\n" + 999 * "x"),
    ],
)
def test_reconcile__a_port_that_has_no_room_for_the_program_is_a_problem_until_it_has(
    error: Exception,
    agent: PortAgent,
    program: FakeProgram,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_room(ifname: str, settings: PortSettings) -> None:
        if ifname == "s1-eth1":
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(program, "attach", no_room)
        for _ in range(3):
            agent.reconcile()
    assert any("s1-eth1 has no room" in problem for problem in agent.state().problems)
    wire.heartbeat_from(wire.heartbeat_document(agent.state()))  # the web process takes it
    assert caplog.text.count("s1-eth1 has no room") == 1
    agent.reconcile()
    assert agent.state().problems == ()


def test_report__a_program_that_is_skipped_goes_first_and_is_a_problem_if_that_does_not_help(
    agent: PortAgent, program: FakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = iter((0, 100, 200, 300, 400))
    monkeypatch.setattr(port_agent, "traffic", lambda: {"s1-eth1": Traffic(0, 0, 0, next(sent), 0)})
    agent.reconcile()
    assert [len(agent.report().problems) for _ in range(3)] == [0, 0, 1]
    assert program.went_first == ["s1-eth1"]
    assert agent.report().problems[0].startswith("s1-eth1: another program ends the chain of tc")
    program.packets = 2
    agent.report()
    assert agent.state().problems == ()


def test_report__counters_by_port_and_queue(agent: PortAgent) -> None:
    agent.reconcile()
    report = agent.report()
    assert set(report.ports) == {"s1:1", "s1:2", "s2:1", "s2:2"}
    assert report.ports["s1:1"][7] == QueueCounters(1, 2, 3, 4, 5)
    assert report.late_ns == dict.fromkeys(report.ports, 6)
    assert wire.heartbeat_from(json.loads(json.dumps(wire.heartbeat_document(report)))) == report


def test_apply__a_core_port_has_a_threshold_of_its_own(agent: PortAgent, program: FakeProgram) -> None:
    agent.reconcile()
    agent.apply(settings(1, scheme="dctcp", mark_at="9pkt", mark_at_core="65pkt"))
    marks = {name: settings.mark_bytes for name, settings in program.on.items()}
    assert marks == {"s1-eth1": 13_500, "s1-eth2": 97_500, "s2-eth1": 13_500, "s2-eth2": 97_500}
    agent.apply(settings(2, scheme="dctcp", mark_at="9pkt"))
    assert {settings.mark_bytes for settings in program.on.values()} == {13_500}


def test_apply__shares_of_each_ports_own_rate_in_one_transaction(
    agent: PortAgent, database: FakeDatabase
) -> None:
    agent.reconcile()
    assert database.transactions == 0, "Open vSwitch starts with strict priorities"
    agent.apply(settings(1, scheme="pias", queues=2, thresholds=["10KB"], shares=[0.9, 0.1]))
    assert database.transactions == 1
    assert [database.min_rate["s1-eth1", q] for q in range(3)] == [9_000_000, 1_000_000, 625_000]
    assert [database.min_rate["s1-eth2", q] for q in range(3)] == [18_000_000, 2_000_000, 1_250_000]
    agent.apply(settings(2, scheme="pias"))
    assert set(database.min_rate.values()) == {12_000}
    assert agent.state().shares_stand


def test_apply__a_change_of_shares_mends_the_rates_of_fast_ports(
    agent: PortAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr("sluice.hostagent.port.agent.FASTEST_BPS", 15_000_000)
    agent.reconcile()
    agent.classes_made = lambda port: made.append(port.interface)
    agent.apply(settings(1, scheme="fish"))
    assert made == ["s1-eth2", "s2-eth2"]


def test_apply__shares_that_cannot_be_set_are_set_later(agent: PortAgent, database: FakeDatabase) -> None:
    agent.reconcile()
    database.away = True
    agent.apply(settings(1, scheme="fish"))
    assert not agent.state().shares_stand
    database.away = False
    agent.reconcile()
    assert agent.state().shares_stand
    assert database.min_rate["s1-eth1", 0] == 8_600_000


def test_last_behaviour__a_new_agent_keeps_the_last_settings(agent: PortAgent) -> None:
    assert last_behaviour(agent.settings) == PortBehaviour()
    agent.reconcile()
    agent.apply(settings(1, scheme="sluice"))
    write_json(agent.settings.port_agent_file, write(agent.report()))
    assert last_behaviour(agent.settings) == agent.behaviour


# ── Two port agents on one machine ─────────────────────────────────────────────────────────────


def test_a_second_agent_of_the_same_switches_is_refused_while_the_first_runs() -> None:
    database = f"tcp:{uuid.uuid4()}"
    with sole_agent(database):
        with pytest.raises(EnvironmentLacking, match="end it first"), sole_agent(database):
            pass
        with sole_agent(f"{database}/other"):
            pass
    with sole_agent(database):
        pass


class FakeWeb:
    """Answers every heartbeat in the same way."""

    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer
        self.heard: list[Any] = []

    def post(self, path: str, body: bytes) -> Answer:
        self.heard.append((path, json.loads(body)))
        if self.answer is None:
            raise ServerAway("connection refused")
        return self.answer


def channel(answer: Answer | None) -> tuple[Channel, FakeWeb]:
    web: Any = FakeWeb(answer)
    return Channel("rack1", web), web


def test_exchange__sends_the_heartbeat_and_applies_the_settings(agent: PortAgent) -> None:
    answer = settings(7, scheme="fish")
    ports, web = channel(Answer(200, json.dumps(write(answer)).encode()))
    agent.exchange(ports, port_heartbeat())
    assert (agent.policy_version, agent.behaviour) == (7, answer.ports)
    assert web.heard == [("/api/v1/agents/rack1", wire.heartbeat_document(port_heartbeat()))]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Answer(404, b"{}"),
        *(Answer(200, body) for body in (b"<html>", b'{"version": 7}', b"[]", b"null")),
    ],
)
def test_ask__no_usable_answer_is_that_of_a_server_that_is_away(answer: Answer | None) -> None:
    with pytest.raises(ServerAway):
        channel(answer)[0].ask(port_heartbeat())


def test_exchange__says_once_that_the_certificate_was_revoked(
    agent: PortAgent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    problem = "this agent's certificate was revoked; enrol it again"
    ports, _web = channel(Answer(403, json.dumps({"error": {"problem": problem}}).encode()))
    for _ in range(2):
        agent.exchange(ports, port_heartbeat())
    assert len(caplog.messages) == 1
    assert problem in caplog.text
    assert "keeping the last settings" in caplog.text


def test_open__needs_an_identity_over_tls(tmp_path: Path) -> None:
    assert open_channel(PortAgentSettings(run_dir=tmp_path)) is None
    assert open_channel(PortAgentSettings(run_dir=tmp_path, web="unix:/run/web.sock")) is not None
    with pytest.raises(SluiceError, match="run `sluice enrol port-agent --kind port`"):
        open_channel(PortAgentSettings(run_dir=tmp_path, web="https://192.0.2.1:8443"))
