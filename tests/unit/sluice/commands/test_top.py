# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import Engine

from sluice import cli
from sluice.commands.top import picture, snapshots
from sluice.policy.figures.validity import MachineStatus
from sluice.policy.schema.desired import Policy
from sluice.store.desired import put_policy
from sluice.store.observed import Sanction, put_agent, put_sanction
from sluice.webui.documents import snapshot
from sluice.webui.recent import RecentFlows
from tests.kit.clock import slow_clock
from tests.kit.heartbeats import port_heartbeat
from tests.web.synthetic import Network


def drawn(document: Mapping[str, Any]) -> str:
    console = Console(width=140, no_color=True)
    with console.capture() as capture:
        console.print(picture(document))
    return capture.get()


def test_picture__an_empty_store(engine: Engine) -> None:
    text = drawn(snapshot(engine, RecentFlows(engine)))
    assert "no policy" in text
    assert "controller DOWN, 0/0 switches" in text


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


def test_picture__what_is_not_valid(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_clock(monkeypatch)
    put_agent(engine, "ports", port_heartbeat(machine=MachineStatus(10.0, 0.99, forwarded_late=0.3)))
    text = " ".join(drawn(snapshot(engine, RecentFlows(engine))).split())
    assert "the figures are not valid: the switch forwarded 30.0% of the packets in the last 10 s" in text


def test_top_once__prints_and_ends(engine: Engine, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    put_policy(engine, Policy.from_document({"scheme": "dctcp"}), "test")
    assert cli.main(["top", "--url", url, "--once"]) == 0
    assert "policy 1: dctcp" in capsys.readouterr().out


def test_top__nobody_answers_is_one_line_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["top", "--url", "http://127.0.0.1:1", "--once"]) == 2
    said = capsys.readouterr().err
    assert "sluice demo" in said
    assert "--url" in said


def test_snapshots__one_after_the_other(url: str) -> None:
    stream = snapshots(url)
    first, second = next(stream), next(stream)
    assert second["at"] > first["at"]
    stream.close()
