# SPDX-License-Identifier: Apache-2.0
"""The agent's decisions, with the port program replaced by a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import topologies
from dataplane.port import PortSettings, QueueCounters
from policy.desired import Policy
from policy.errors import FieldError, SluiceError
from policy.marking import PortMarking
from policy.schemes import SCHEMES
from topologies.port_agent import PortAgent
from topologies.settings import Settings, write_json
from webui.documents import agent_settings


@dataclass
class FakeProgram:
    on: dict[str, PortSettings] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def attach(self, ifname: str, settings: PortSettings) -> None:
        if ifname in self.gone:
            raise SluiceError(f"there is no port {ifname}")
        self.on[ifname] = settings

    def set(self, ifname: str, settings: PortSettings) -> None:
        assert ifname in self.on
        self.on[ifname] = settings

    def is_attached(self, ifname: str) -> bool:
        return ifname in self.on

    def counters(self, ifname: str) -> tuple[QueueCounters, ...]:
        return (QueueCounters(1, 2, 3, 4, 5),) * 8


@pytest.fixture
def agent(tmp_path) -> PortAgent:
    graph = topologies.build("dumbbell", left=1, right=1, host_rate_bps=10**7, core_rate_bps=2 * 10**7)
    program: Any = FakeProgram()
    return PortAgent(Settings(tmp_path, tmp_path), graph, program, PortMarking(None, 100_000))


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


def test_set_marking__reaches_attached_ports_and_those_attached_later(agent):
    agent.program.gone = {"s2-eth1"}
    agent.reconcile()
    agent.set_marking(PortMarking(30_000, 200_000))
    agent.program.gone = set()
    agent.reconcile()
    assert {(s.mark_bytes, s.buffer_bytes) for s in agent.program.on.values()} == {(30_000, 200_000)}


def test_set_marking__impossible_values_change_nothing(agent):
    agent.reconcile()
    before = dict(agent.program.on)
    with pytest.raises(FieldError):
        agent.set_marking(PortMarking(-1, 200_000))
    assert agent.program.on == before
    assert agent.marking == PortMarking(None, 100_000)


def test_obey__before_the_first_policy_there_is_nothing_to_do(agent):
    agent.obey({"policy_version": 0, "mark_bytes": None, "buffer_bytes": None})
    assert agent.marking == PortMarking(None, 100_000)


def test_obey__a_policy_without_marking_ends_marking(agent):
    agent.obey({"policy_version": 3, "mark_bytes": 97_500, "buffer_bytes": 360_000})
    assert (agent.marking.mark_bytes, agent.policy_version) == (97_500, 3)
    agent.obey({"policy_version": 4, "mark_bytes": None, "buffer_bytes": 360_000})
    assert (agent.marking.mark_bytes, agent.policy_version) == (None, 4)


def test_obey__another_way_of_marking_replaces_the_one_before(agent):
    """Each way in turn, from the answer that the web process makes of a policy to the settings of a port."""
    agent.reconcile()
    for name, threshold in (("dctcp", 65), ("datcp", None), ("hull", None), ("datcp", None), ("d2tcp", 9)):
        policy = Policy.from_document(
            {"scheme": name, **({"mark_at": f"{threshold}pkt"} if threshold else {})}
        )
        agent.obey(agent_settings(7, policy))
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
    agent.obey(agent_settings(1, Policy.from_document({"scheme": name})))
    marks = agent.marking.mark_bytes is not None or agent.marking.phantom_mark_bytes is not None
    assert marks == (SCHEMES[name].marking != "none")


def test_obey__no_answer_changes_nothing(agent):
    agent.obey({"policy_version": 3, "mark_bytes": 97_500, "buffer_bytes": 360_000})
    agent.obey({})
    assert (agent.marking, agent.policy_version) == (PortMarking(97_500, 360_000), 3)


def test_read_marking_file__once_for_each_time_it_is_written(agent):
    agent.reconcile()
    write_json(agent.settings.marking_file, {"mark_bytes": 5_000, "buffer_bytes": 50_000})
    agent.read_marking_file()
    assert agent.marking.mark_bytes == 5_000
    agent.set_marking(PortMarking(6_000, 50_000))
    agent.read_marking_file()
    assert agent.marking.mark_bytes == 6_000


def test_report__kind_and_counters_by_port_and_queue(agent):
    agent.reconcile()
    report = agent.report()
    assert report["kind"] == "port"
    assert set(report["ports"]) == {"s1:1", "s1:2", "s2:1", "s2:2"}
    assert report["ports"]["s1:1"][7] == {
        "packets": 1,
        "bytes": 2,
        "marked": 3,
        "dropped": 4,
        "not_markable": 5,
    }
