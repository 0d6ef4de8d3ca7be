# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine

from policy.desired import Policy
from policy.records import FlowRecord
from sluice import cli
from store.desired import put_policy
from store.flows import add_flows
from store.observed import ThresholdChange, add_thresholds
from tests.fakes.gnmi import FakeSwitch

SCENARIO = """
name = "x"
fabric = { topology = "single" }
scheme = { name = "sluice" }
workload = { flows = 2, sizes = "web-search", load = 0.8 }
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "x.toml"
    file.write_text(SCENARIO)
    return str(file)


def export(*words: str) -> int:
    return cli.main(["export", "sonic", *words])


def test_a_scenario__tables_on_stdout_and_the_losses_beside_them(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(scenario, "--interfaces", "Ethernet0,Ethernet4") == 0
    shown = capsys.readouterr()
    tables = json.loads(shown.out)
    assert set(tables["PORT_QOS_MAP"]) == {"Ethernet0", "Ethernet4"}
    assert "8 traffic classes" in shown.err
    assert "the scenario's workload" in shown.err


def test_a_scenario__into_a_switch(scenario: str) -> None:
    switch = FakeSwitch()
    try:
        address = f"127.0.0.1:{switch.port}"
        words = [scenario, "--interfaces", "Ethernet0", "--gnmi", address]
        assert export(*words, "--plaintext") == 0
        assert switch.rows["PORT_QOS_MAP", "Ethernet0"]["dscp_to_tc_map"] == "SLUICE"
        assert export(*words) == 2  # neither TLS nor the word for plain text
        assert len(switch.requests) == 1
    finally:
        switch.stop()


def test_running__each_port_has_its_thresholds_in_force(
    url: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 3, "thresholds": ["10KB", "1MB"]})
    put_policy(engine, policy, "test")
    for port, thresholds in (("s1:1", (10_000, 1_000_000)), ("s1:2", (10_000, 10_000))):
        add_thresholds(engine, [ThresholdChange(1.0, port, 1, thresholds, 1)])
    add_flows(engine, [_record(number) for number in range(200)])
    words = ["--running", "--url", url, "--interfaces", "s1:1=Ethernet0,s1:2=Ethernet4", "--only-maps"]
    assert export(*words) == 0
    shown = capsys.readouterr()
    tables = json.loads(shown.out)
    assert set(tables) == {"TC_TO_QUEUE_MAP"}
    first, second = (set(row.values()) for row in tables["TC_TO_QUEUE_MAP"].values())
    assert (first, second) == ({"0", "1", "2"}, {"0", "2"})  # equal thresholds leave the queue between empty
    assert "200 reported flows" in shown.err


def test_running__says_what_is_missing(url: str, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--running", "--url", url, "--interfaces", "s1:9=Ethernet0"]
    assert export(*words) == 2
    assert "there is no policy yet" in capsys.readouterr().err
    put_policy(engine, Policy.from_document({"scheme": "sluice"}), "test")
    add_thresholds(engine, [ThresholdChange(1.0, "s1:1", 1, (1, 2, 3, 4, 5), 1)])
    assert export(*words) == 2
    assert "no port s1:9; it has s1:1" in capsys.readouterr().err
    assert export(*words[:-1], "s1:1=Ethernet0") == 2
    assert "hosts have reported 0 flows, and a plan needs 100" in capsys.readouterr().err


def _record(number: int) -> FlowRecord:
    return FlowRecord(
        id=f"run/{number}",
        src="h1",
        dst="h2",
        bytes=10_000 if number % 5 else 1_000_000,
        size_class="small",
        started_at=float(number + 1),
        fct_us=100.0,
        ideal_us=50.0,
        deadline_us=None,
        met=None,
        retransmissions=0,
        congestion_control="cubic",
        scheme="mlfq-adaptive",
        status="finished",
    )
