# SPDX-License-Identifier: Apache-2.0
"""An RPC server with deadlines: each answer on a persistent connection is a flow, and its misses show."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from policy.records import FINISHED, WATCHED, FlowRecord
from runtime.http_client import HttpClient
from runtime.wait import wait_until
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from store.flows import all_flows
from tests.net.scenarios import RATE_BPS, scenario
from topologies import build_topology

HERE = Path(__file__).parent
PORT = 8000
MET, MISSED = "/5000/3000", "/120000/10"
"""Bytes and milliseconds. The link needs 38 ms for 120 KB."""
ANSWERS = (MET, MISSED, MET)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A complete Sluice without a schedule; an asyncio server on h1."""
    checked, _ = scenario_with(scenario("rpc"))
    topology = build_topology(checked)
    with Stack.start(checked, topology, tmp_path_factory.mktemp("rpc")) as stack:
        stack.start_agents([])
        argv = [sys.executable, str(HERE / "rpc_server.py"), address(stack), str(PORT)]
        server = stack.testbed.spawn("h1", argv, log_file=stack.out / "rpc.log")
        listening = lambda: f":{PORT}" in stack.testbed.exec("h1", ["ss", "-Hltn"])  # noqa: E731
        wait_until(listening, "the server listens", timeout_s=30)
        yield stack
        server.terminate()


def address(stack: Stack) -> str:
    return stack.topology.host_by_name["h1"].ipv4


def answers(stack: Stack, client: str) -> list[FlowRecord]:
    """Return the server's flows to a host, once there are as many as answers."""

    def found() -> list[FlowRecord]:
        stack.check()
        return [flow for flow in all_flows(stack.engine, WATCHED) if flow.dst == client]

    wait_until(lambda: len(found()) >= len(ANSWERS), "a record for each answer", timeout_s=30)
    return sorted(found(), key=lambda flow: flow.started_at)


def check(flows: list[FlowRecord]) -> None:
    assert len({flow.dst_port for flow in flows}) == 1, "one connection"
    assert [flow.deadline_us for flow in flows] == [3e6, 1e4, 3e6]
    assert [flow.met for flow in flows] == [True, False, True]
    for flow, head in zip(flows, ANSWERS, strict=True):
        size_bytes = int(head.split("/")[1])
        assert size_bytes < flow.bytes < size_bytes + 100, "the answer and its head"
        assert (flow.src, flow.src_port, flow.status) == ("h1", PORT, FINISHED)
        assert flow.fct_us is not None
        assert flow.ack_wait_us is not None
        assert flow.slowdown is not None
        assert 0 < flow.ack_wait_us <= flow.fct_us
    assert flows[1].slowdown is not None
    assert flows[1].slowdown > 0.9, "the emulated port's bucket lets the first bytes pass at once"
    assert flows[1].fct_us is not None
    assert flows[1].fct_us > 0.9 * 120_000 * 8e6 / RATE_BPS


def figures(stack: Stack, what: str, source: str) -> dict[str, Any]:
    found: dict[str, Any] = stack.get(f"{what}?window_s=600&source={source}").json()
    return found


def test_curl_on_one_connection(stack: Stack) -> None:
    urls = [f"http://{address(stack)}:{PORT}{path}" for path in ANSWERS]
    sinks = ["-o", "/dev/null"] * len(urls)
    stack.testbed.exec("h3", ["curl", "-sS", "--rate", "30/s", *sinks, *urls])
    check(answers(stack, "h3"))
    deadlines = figures(stack, "deadlines", "watched")
    assert (deadlines["n"], deadlines["missed"]) == (3, 1)
    assert figures(stack, "deadlines", "scheduled")["n"] == 0
    assert figures(stack, "fct", "all")["classes"]["all"]["n"] == 3
    assert figures(stack, "fct", "watched")["slowdown"]["all"]["n"] == 3
    with closing(HttpClient(f"unix:{stack.web_socket}", 20)) as web:
        metrics = web.request("GET", "/metrics", None, None).body.decode()
    assert 'sluice_deadline_flows_total{met="false",scheme="pias",source="watched"} 1.0' in metrics


def test_a_client_in_go(stack: Stack, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("no Go compiler: apt-get install golang-go")
    client = tmp_path / "client"
    subprocess.run(["go", "build", "-o", client, HERE / "rpc_client.go"], check=True, cwd=tmp_path)
    stack.testbed.exec("h4", [str(client), f"{address(stack)}:{PORT}", *ANSWERS])
    check(answers(stack, "h4"))
