# SPDX-License-Identifier: Apache-2.0
"""Programs without Sluice on hosts with agents. Each of their connections is recorded and shown once."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sluice.policy.wire.records import FINISHED, TRAFFIC, WATCHED, FlowRecord, ScheduledFlow
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.http_client import HttpClient
from sluice.runtime.wait import wait_until
from sluice.store.flows import all_flows, count_flows
from tests.kit.flows import flow
from tests.kit.known import known
from tests.kit.pages import DOCS, ROOT, of_order
from tests.net.conftest import iperf_server
from tests.net.scenarios import RATE_BPS, scenario
from tests.unit.hostagent.agents import ADDRESSES, Agents

FILE_BYTES = 3_000_000
NEVER_NS = 3600 * 10**9
PORT = 8000
MET, MISSED = "/5000/3000", "/120000/10"
"""Bytes and milliseconds. The link needs 38 ms for 120 KB."""
ANSWERS = (MET, MISSED, MET)


@pytest.fixture
def agents() -> Iterator[Agents]:
    with Agents() as made:
        made.web.settings["host"]["idle_gap_ns"] = NEVER_NS  # a pause of a program begins no flow
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(FILE_BYTES))
    return path


def serve(agents: Agents, file: Path) -> None:
    """Start a web server on h2."""
    argv = [
        "python3",
        "-m",
        "http.server",
        "8000",
        "--bind",
        ADDRESSES["h2"],
        "--directory",
        str(file.parent),
    ]
    agents.cable.spawn("h2", argv, file.parent / "http.log")
    wait_until(lambda: ":8000" in agents.cable.exec("h2", ["ss", "-Hltn"]), "the web server listens")


def fetch(agents: Agents) -> None:
    agents.cable.exec("h1", ["curl", "-s", "-o", "/dev/null", f"http://{ADDRESSES['h2']}:8000/file"])


def watched(agents: Agents) -> list[FlowRecord]:
    return [record for record in agents.web.records.values() if record.source == WATCHED]


def test_curl_is_recorded_once_by_the_sender_also_if_the_web_process_is_away_and_an_agent_is_killed(
    agents: Agents, file: Path
) -> None:
    agents.start(*[flow(i, 0.02 * i, 20_000) for i in range(20)])
    wait_until(
        lambda: agents.status("h2")["default_congestion_control"] == "sluice_dctcp", "the host's default"
    )
    serve(agents, file)
    fetch(agents)
    agents.records(21)
    (record,) = watched(agents)
    assert (record.src, record.src_port, record.dst) == ("h2", 8000, "h1")
    assert 0 < record.bytes - FILE_BYTES < 500, "the file and the answer's head, once"
    assert (record.status, record.reason, record.ideal_us) == (FINISHED, "", None)
    assert 0 < known(record.fct_us) <= known(record.lasted_us)
    assert record.congestion_control == "sluice_dctcp"
    assert agents.status("h2")["watch"]["watching"] is True
    assert agents.status("h2")["watch"]["lost"] == 0
    agents.web.stop()
    for _ in range(3):
        fetch(agents)
    spool = agents.folder / "h2" / "watched"
    wait_until(lambda: lines(spool) >= 4, "the records are on disk")
    agents.kill("h2")
    agents.web.start()
    agents.start_agent("h2")
    agents.records(24)
    assert {record.src_port for record in watched(agents)} == {8000}
    assert len({record.dst_port for record in watched(agents)}) == 4


def lines(spool: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in spool.glob("segment-*"))


def test_a_connection_continues_while_the_agent_restarts(agents: Agents) -> None:
    agents.cable.spawn("h2", ["iperf", "-s", "-p", "5100"], Path("/dev/null"))
    wait_until(lambda: ":5100" in agents.cable.exec("h2", ["ss", "-Hltn"]), "iperf listens")
    agents.start()
    argv = ["iperf", "-c", ADDRESSES["h2"], "-p", "5100", "-b", "20M", "-t", "60"]
    client = agents.cable.spawn("h1", argv, Path("/dev/null"))
    before = wait_until(lambda: agents.connections("h1"), "the heartbeat shows the connection")
    agents.kill("h1")
    agents.start_agent("h1")
    again = wait_until(
        lambda: [c for c in agents.connections("h1") if c["rate_bps"]],
        "the heartbeat shows the connection again",
    )
    assert [(c["src"], c["src_port"], c["dst_port"]) for c in before + again] == [
        ("h1", before[0]["src_port"], 5100)
    ] * 2
    client.terminate()
    client.wait()
    # A pause of the machine ends the flow, and the next one on the connection began while it was watched.
    records = agents.records(1).values()
    assert "began before it was watched" in {record.reason for record in records}
    assert {(record.src_port, record.dst_port) for record in records} == {(before[0]["src_port"], 5100)}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A complete Sluice with a long iperf and a short schedule."""
    document = scenario("watched", background=[{"from": "h2", "to": "h1", "rate": "8Mbit"}])
    document["scheme"]["idle_gap_ms"] = 1000  # iperf pauses to keep its rate
    checked, _, topology = scenario_with(document)
    with Stack.start(checked, topology, tmp_path_factory.mktemp("watched")) as stack:
        flows = [
            ScheduledFlow(f"run/{i}", 0.05 * i, "h3", "h4", 10_000, "small", 2000.0, None) for i in range(10)
        ]
        stack.start_agents(flows)
        stack.start_background()
        yield stack


def living(stack: Stack) -> list[dict[str, Any]]:
    stack.check()
    return list(stack.get("connections").json()["living"])


def test_iperf_on_the_testbed_shows_its_rate_and_becomes_a_flow(stack: Stack) -> None:
    def steady() -> list[dict[str, Any]]:
        return [c for c in living(stack) if c["bytes"] > 2_000_000]

    (iperf,) = wait_until(steady, "iperf shows")
    assert (iperf["src"], iperf["dst"], iperf["dst_port"]) == ("h2", "h1", 5100)
    assert iperf["rate_bps"] > 0
    wait_until(lambda: count_flows(stack.engine) == 10, "the schedule is done")
    stack.background[0].stop()
    wait_until(lambda: all_flows(stack.engine, WATCHED), "its record")
    (recorded,) = stack.get("flows?source=watched").json()["flows"]
    assert recorded["id"] == iperf["id"]
    assert recorded["bytes"] >= iperf["bytes"]
    assert count_flows(stack.engine) == 10, "a run counts only its own flows"
    assert stack.get("fct").json()["classes"]["all"]["n"] <= 10
    wait_until(lambda: not living(stack), "the next heartbeat no longer has it")


def test_ipv6_between_hosts_is_recorded_once_and_by_name(stack: Stack) -> None:
    address = stack.topology.host_by_name["h1"].ipv6
    server = iperf_server(stack.testbed, "h1", "5300", "-V")
    stack.testbed.exec("h3", ["iperf", "-c", address, "-V", "-p", "5300", "-n", "200000"])

    def record() -> list[FlowRecord]:
        stack.check()
        return [r for r in all_flows(stack.engine, WATCHED) if r.dst_port == 5300]

    (found,) = wait_until(record, "its record")
    assert (found.src, found.dst, found.status) == ("h3", "h1", FINISHED)
    assert found.bytes >= 200_000
    server.terminate()


def answers(stack: Stack) -> list[FlowRecord]:
    """Return the server's flows, once there are as many as answers."""

    def found() -> list[FlowRecord]:
        stack.check()
        return [record for record in all_flows(stack.engine, WATCHED) if record.src_port == PORT]

    wait_until(lambda: len(found()) >= len(ANSWERS), "a record for each answer")
    return sorted(found(), key=lambda record: record.started_at)


def check_answers(flows: list[FlowRecord]) -> None:
    assert len({flow.dst_port for flow in flows}) == 1, "one connection"
    assert [(answer.deadline_us, answer.met) for answer in flows] == [(3e6, True), (1e4, False), (3e6, True)]
    for answer, head in zip(flows, ANSWERS, strict=True):
        size_bytes = int(head.split("/")[1])
        assert size_bytes < answer.bytes < size_bytes + 100, "the answer and its head"
        assert (answer.src, answer.src_port, answer.status) == ("h4", PORT, FINISHED)
        assert answer.slowdown is not None
        assert 0 < known(answer.ack_wait_us) <= known(answer.fct_us)
    assert known(flows[1].slowdown) > 0.9, "the emulated port's bucket lets the first bytes pass at once"
    assert known(flows[1].fct_us) > 0.9 * 120_000 * 8e6 / RATE_BPS


def figures(stack: Stack, what: str, source: str) -> dict[str, Any]:
    found: dict[str, Any] = stack.get(f"{what}?window_s=600&source={source}").json()
    return found


def test_rpc__curl_on_one_connection(stack: Stack, tmp_path: Path) -> None:
    """The server that a page shows runs on h4."""
    (page,) = of_order(DOCS / "tutorials" / "rpc-server.md", "save")
    (tmp_path / "server.py").write_text(page.text)
    argv = ["env", f"PYTHONPATH={ROOT}", sys.executable, str(tmp_path / "server.py"), str(PORT)]
    server = stack.testbed.spawn("h4", argv, log_file=stack.out / "rpc.log")
    wait_until(lambda: f":{PORT}" in stack.testbed.exec("h4", ["ss", "-Hltn"]), "the server listens")
    urls = [f"http://{stack.topology.host_by_name['h4'].ipv4}:{PORT}{path}" for path in ANSWERS]
    sinks = ["-o", "/dev/null"] * len(urls)
    stack.testbed.exec("h2", ["curl", "-sS", "--rate", "30/s", *sinks, *urls])
    check_answers(answers(stack))
    deadlines = figures(stack, "deadlines", "watched")
    assert (deadlines["n"], deadlines["missed"]) == (3, 1)
    assert figures(stack, "deadlines", "scheduled")["n"] == 0
    counts = {what: figures(stack, "fct", what)["classes"]["all"]["n"] for what in TRAFFIC}
    assert counts["all"] == counts["watched"] + counts["scheduled"]
    assert counts["watched"] >= figures(stack, "fct", "watched")["slowdown"]["all"]["n"] >= 3
    with closing(HttpClient(f"unix:{stack.web_socket}", 20)) as web:
        metrics = web.request("GET", "/metrics", None, None).body.decode()
    assert 'sluice_deadline_flows_total{met="false",scheme="pias",source="watched"} 1.0' in metrics
    server.terminate()
