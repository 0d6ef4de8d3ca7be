# SPDX-License-Identifier: Apache-2.0
"""Slow, silent and greedy clients, all at once, at a real server: it answers others, and ends what takes too long."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from experiments.checks.perimeter.attacks import ATTACKS
from sluice.runtime.http_client import HttpClient
from sluice.runtime.process import spawn, stop
from sluice.webui.bridge import BODY_S, HEADER_S
from sluice.webui.services import MOST_STREAMS, SHARE_WITHOUT_TOKEN
from tests.kit.heartbeats import document, host_heartbeat
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, Server, eventually

ATTACK_S = max(HEADER_S, BODY_S) + 8
ANSWER_S = 15.0
"""An answer on a busy machine. Without threads of its own, a request would wait for the end of the attack."""


def test_an_attack_holds_up_neither_agents_nor_health(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "attack.json"
    argv = [
        sys.executable,
        "-m",
        "experiments.checks.perimeter.attacks",
        "slow",
        str(server.port),
        str(ATTACK_S),
    ]
    attack = spawn(argv, log_file=log)
    agent = HttpClient(f"unix:{server.socket_path}", ANSWER_S)
    beat = json.dumps(document(host_heartbeat())).encode()
    number = 0
    while attack.poll() is None:
        assert agent.post("/api/v1/agents/h1", beat).ok
        assert (
            agent.post("/api/v1/flows", json.dumps([record(f"f{number}")]).encode()).json()["accepted"] == 1
        )
        health = HttpClient(server.url, ANSWER_S)
        assert health.get("/api/v1/health").json()["store"]["reachable"]
        health.close()
        number += 1
        with suppress(subprocess.TimeoutExpired):
            attack.wait(0.5)  # without a pause, the agent would be an attack of its own
    answers = json.loads(log.read_text())
    assert answers["slow body 408"] > 0
    assert answers["half header 408"] > 0
    assert answers["silent 408"] > 0
    assert answers["stream 200"] <= MOST_STREAMS * SHARE_WITHOUT_TOKEN
    [streams] = [clients.count for clients in ATTACKS["slow"] if clients.name == "stream"]
    assert answers["stream 429"] >= streams - answers["stream 200"]
    assert number > 3


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with room for few connections and one stream without a token."""
    more = ("--most-connections", "16", "--most-streams", "8")
    server = Server(tmp_path_factory.mktemp("small"), None, *more)
    server.start()
    yield server
    stop(server.process, grace_s=20)


def test_too_many_connections__the_longest_waiting_makes_room(small_server: Server) -> None:
    address = ("127.0.0.1", small_server.port)
    idle = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(40)]
    assert idle[0].recv(4096).startswith(b"HTTP/1.1 408 ")
    assert small_server.get("health")["store"]["reachable"]
    for connection in idle:
        connection.close()


def test_a_stream_gives_its_place_back_when_its_client_goes(small_server: Server) -> None:
    held: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []

    def status() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", small_server.port, timeout=PATIENCE_S)
        connection.request("GET", "/api/v1/events")
        answer = connection.getresponse()
        held.append((connection, answer))
        return answer.status

    assert [status(), status()] == [200, 429]
    for connection, answer in held:
        answer.close()
        connection.close()
    eventually(lambda: status() == 200, "the place is free again")
