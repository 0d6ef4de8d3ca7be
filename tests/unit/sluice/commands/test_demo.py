# SPDX-License-Identifier: Apache-2.0
"""The demonstration and its display, and what is refused before a long run begins."""

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import Engine

from sluice import cli
from sluice.cli import REMOVED, main
from sluice.commands import demo
from sluice.commands.arguments import check_free
from sluice.commands.demo import AUTO, chosen
from sluice.commands.top import picture
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schema.desired import Policy
from sluice.store.desired import put_policy
from sluice.store.observed import Sanction, put_sanction
from sluice.webui.figures import RecentFlows
from sluice.webui.live import snapshot
from tests.kit.clock import slow_clock
from tests.web.synthetic import Network


def test_check_free__an_address_in_use_is_an_error_with_its_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SluiceError, match="choose another --listen"):
            check_free(address)
    check_free(address)


def deny(monkeypatch: pytest.MonkeyPatch, obstacle: str | None) -> None:
    monkeypatch.setattr(demo, "obstacle", lambda: obstacle)


def test_chosen__auto_takes_the_testbed_where_it_can_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(monkeypatch, None)
    (scenario, *_), on = chosen(AUTO, None)
    assert (scenario.name, on) == ("demo", TESTBED)
    assert capsys.readouterr().out == ""


def test_chosen__auto_says_in_one_line_why_the_network_is_simulated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(monkeypatch, "a kernel without BTF")
    (scenario, document, _), on = chosen(AUTO, None)
    assert (scenario.name, document["name"], on) == ("demo-simulator", "demo-simulator", SIMULATOR)
    assert capsys.readouterr().out == "simulated network, because: a kernel without BTF\n"


def test_chosen__auto_simulates_a_scheme_that_the_testbed_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    deny(monkeypatch, None)
    path = tmp_path / "pfabric.toml"
    path.write_text(
        """
        name = "mine"
        fabric = {topology = "single"}
        scheme = {name = "pfabric"}
        workload = {flow = [{from = "h1", to = "h2", bytes = "1MB"}]}
        """
    )
    (scenario, *_), on = chosen(AUTO, path)
    assert (scenario.name, on) == ("mine", SIMULATOR)
    assert "serve the shortest remaining flow first" in capsys.readouterr().out


def test_chosen__a_demanded_testbed_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, "no root rights")
    with pytest.raises(SluiceError, match="no root rights"):
        chosen(TESTBED, None)


def drawn(document: Mapping[str, Any]) -> str:
    console = Console(width=140, no_color=True)
    with console.capture() as capture:
        console.print(picture(document))
    return capture.get()


def test_picture__a_network(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_clock(monkeypatch)
    network = Network(engine)
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 4})
    version = put_policy(engine, policy, "test")
    now = time.time()
    for second in (2, 1, 0):
        network.second(now - second, policy, version)
    network.heartbeats(version, without="h3")
    document = snapshot(engine, RecentFlows(engine))
    document["health"]["agents"][0]["alive"] = False
    document["health"]["agents"][1]["status"]["spool_depth"] = 41
    problem = {
        "kind": "port-missing",
        "where": "rack1:eht1",
        "problem": "the switch has no port of this name",
    }
    document["health"]["problems"] = [problem]
    text = drawn(document)
    assert f"policy {version}: mlfq-adaptive (pending)" in text
    assert "controller up, 6/6 switches" in text
    assert f"small │ {document['traffic']['all']['fct']['classes']['small']['n']} " in " ".join(
        text.replace("│", " │ ").split()
    )
    deadlines = document["traffic"]["all"]["deadlines"]
    assert f"{deadlines['missed']} of {deadlines['n']} missed" in text
    assert "41 records in spools" in text
    assert f"silent: {document['health']['agents'][0]['name']}" in text
    assert "rack1:eht1: the switch has no port of this name" in text
    rows = [line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│ s")]
    ports = [row for row in rows if ":" in row]
    assert ports == sorted(ports, key=lambda name: [int(part) for part in name[1:].split(":")])
    assert len(ports) == len(network.topology.ports)


def test_picture__a_demoted_host_and_why(engine: Engine) -> None:
    sanction = Sanction(
        port="s1:2",
        host="h2",
        flow="TCP 10.0.0.2:40000 > 10.0.0.1:80",
        tag=0,
        sent_bytes=2_000_000,
        limit_bytes=60_000,
        duration_s=0.4,
        offences=1,
        term_s=10.0,
        since=time.time(),
    )
    put_sanction(engine, sanction)
    text = " ".join(drawn(snapshot(engine, RecentFlows(engine))).split())
    assert "h2 (s1:2) is demoted since" in text
    assert (
        "TCP 10.0.0.2:40000 > 10.0.0.1:80 sent 2 MB under tag 0; a flow with correct tags sends at most 60 KB"
        in text
    )


def test_top_once__prints_and_ends(engine: Engine, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    put_policy(engine, Policy.from_document({"scheme": "dctcp"}), "test")
    assert cli.main(["top", "--url", url, "--once"]) == 0
    assert "policy 1: dctcp" in capsys.readouterr().out


def test_top__nobody_answers_is_one_line_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["top", "--url", "http://127.0.0.1:1", "--once"]) == 2
    said = capsys.readouterr().err
    assert "sluice demo" in said
    assert "--url" in said


# What is wrong with a long run or sweep is said before its length is asked for, and before anything is compiled.


SCENARIO = """
name = "long"
fabric = { topology = "leaf-spine" }
scheme = { name = "dctcp" }
workload = { flows = 1000000000, sizes = "web-search", load = 0.5 }
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def fail(*_: object) -> None:
        raise AssertionError("a refused run asks for its length, or is compiled")

    for name in ("commands.run.check_length", "commands.run.predicted_total_s", "runs.files.runner"):
        monkeypatch.setattr(f"sluice.{name}", fail)
    path = tmp_path / "long.toml"
    path.write_text(SCENARIO)
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_sweep__a_scheme_that_the_fabric_lacks(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(
        capsys, "sweep", scenario, "--on", "testbed", "--schemes", "dctcp", "pfabric", "--out", tmp_path / "o"
    )
    assert "pfabric/load-0.5/seed-01: scheme: pfabric needs" in said


def test_run__a_scheme_that_the_fabric_lacks(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--set", "scheme.name=pfabric", "--on", "testbed", "--out", tmp_path / "o")
    assert "pfabric needs" in refused(capsys, "run", scenario, *words)


def test_what_was_removed_names_its_replacement(capsys: pytest.CaptureFixture[str]) -> None:
    for removed, replacement in REMOVED.items():
        said = refused(capsys, *removed.split())
        assert said == f"sluice: {removed} was removed: {replacement}\n"
