# SPDX-License-Identifier: Apache-2.0
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from sluice import cli
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import FlowRecord
from sluice.remote import Remote
from sluice.runtime.wait import wait_until
from sluice.sonic import Following
from sluice.store.desired import put_policy, put_topology
from sluice.store.flows import add_flows
from sluice.store.observed import ThresholdChange, add_thresholds
from sluice.topologies import build
from tests.kit.bundles import record

pytestmark = pytest.mark.slow

ADAPTIVE = {"scheme": "mlfq-adaptive", "queues": 3, "thresholds": ["10KB", "1MB"]}
SCENARIO = """
name = "x"
fabric = { topology = "single" }
scheme = { name = "mlfq-adaptive", queues = 3, thresholds = ["10KB", "1MB"] }
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


def test_running__each_port_has_its_thresholds_in_force(
    url: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    put_policy(engine, Policy.from_document(ADAPTIVE), "test")
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
    assert "no port or host s1:9 (did you mean s1:1?); it has s1:1, any" in capsys.readouterr().err
    assert export(*words[:-1], "s1:1=Ethernet0") == 2
    assert "hosts have reported 0 flows, and a plan needs 100" in capsys.readouterr().err


def test_following__a_port_to_a_host_follows_from_the_flows_to_it(url: str, engine: Engine) -> None:
    put_policy(engine, Policy.from_document(ADAPTIVE), "test")
    put_topology(engine, build("single", hosts=3))
    add_flows(engine, [_record(number) for number in range(200)])
    add_flows(engine, [_record(number, dst="h3", size_bytes=20_000_000) for number in range(200, 400)])
    places = {f"Ethernet{4 * n}": place for n, place in enumerate(("h1", "h2", "h3", "any", "any"))}
    following = Following(Remote(url, None), places, 0.8, only_maps=True)
    before = following.look()[0]["TC_TO_QUEUE_MAP"]
    nothing_known, small, large, uplink, other_uplink = before.values()
    assert small != large
    assert nothing_known == uplink == other_uplink
    assert uplink != large
    add_flows(engine, [_record(number, dst="h3", size_bytes=10_000) for number in range(400, 2000)])
    after = following.look()[0]["TC_TO_QUEUE_MAP"]
    assert after["SLUICE_Ethernet4"] == before["SLUICE_Ethernet4"]
    assert after["SLUICE_Ethernet8"] != before["SLUICE_Ethernet8"]


def test_follow__goes_on_after_a_problem_until_ctrl_c(
    url: str, engine: Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put_policy(engine, Policy.from_document({"scheme": "pias"}), "test")
    add_thresholds(engine, [ThresholdChange(1.0, "s1:1", 1, (1, 2, 3, 4, 5, 6, 7), 1)])
    out = tmp_path / "qos.json"
    argv = [sys.executable, "-m", "sluice", "export", "sonic", "--running", "--url", url]
    argv += ["--interfaces", "s1:1=Ethernet0", "--follow", "1", "--out", str(out)]
    process = subprocess.Popen(argv)
    try:
        wait_until(out.exists, "the first tables")
        put_policy(engine, Policy.from_document({"scheme": "fish"}), "test")
        wait_until(lambda: "trying again every 1 s" in capfd.readouterr().err, "the problem is said")
        put_policy(engine, Policy.from_document({"scheme": "pias", "mark_at": "50KB"}), "test")
        wait_until(lambda: "It works again" in capfd.readouterr().err, "the next tables")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0


def test_follow__needs_a_network_and_a_place(
    url: str, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(scenario, "--interfaces", "Ethernet0", "--follow", "5") == 2
    assert "--follow needs --running" in capsys.readouterr().err
    assert export("--running", "--url", url, "--interfaces", "any=Ethernet0", "--follow", "5") == 2
    assert "--follow needs --out" in capsys.readouterr().err


def _record(number: int, dst: str = "h2", size_bytes: int = 0) -> FlowRecord:
    """A record of the size, or every fifth one of 1 MB and the others of 10 KB."""
    return record(number, dst=dst, bytes=size_bytes or (10_000 if number % 5 else 1_000_000))
