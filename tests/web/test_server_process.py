# SPDX-License-Identifier: Apache-2.0
"""The web process under load: stopped, killed, and with many clients. All tests share one, which the last one ends."""

import itertools
import json
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import requests
from sqlalchemy import Engine

from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.store.flows import all_flows, count_flows
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, Server, eventually

CLIENTS = 25
Listeners: TypeAlias = tuple[list[threading.Thread], list[int]]


def test_sighup_ends_neither_the_server_nor_a_worker(shared_server: Server) -> None:
    pid = shared_server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    before = children.read_text()
    for process in (pid, *map(int, before.split())):
        os.kill(process, signal.SIGHUP)
    for _ in range(5):
        assert shared_server.get("health")["store"]["reachable"]
    assert shared_server.process.poll() is None
    assert children.read_text() == before


def test_a_worker_that_does_nothing_is_replaced(shared_server: Server) -> None:
    pid = shared_server.process.pid
    (stopped,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    os.kill(stopped, signal.SIGSTOP)
    eventually(lambda: not Path(f"/proc/{stopped}").exists(), "it is gone")
    assert shared_server.get("health")["store"]["reachable"]


def deliver(client: HttpClient, batch: list[dict[str, Any]], until: float) -> None:
    """Deliver a batch as an agent does: repeat it until the server acknowledges it."""
    while time.monotonic() < until:
        try:
            answer = client.post("/api/v1/flows", json.dumps(batch).encode())
        except ServerAway:
            time.sleep(0.05)
            continue
        assert answer.status == 200, answer.body
        return
    raise TimeoutError("a batch was never acknowledged")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_kill_9__amid_deliveries_no_record_is_lost_or_doubled(
    shared_server: Server, shared_engine: Engine
) -> None:
    until = time.monotonic() + 3 * PATIENCE_S
    was_killed_twice = threading.Event()
    sent: list[str] = []
    failures: list[Exception] = []

    def send(sender: int) -> None:
        try:
            client = HttpClient(f"unix:{shared_server.socket_path}", 10)
            for batch in itertools.count():
                ids = [f"{sender}.{batch}.{i}" for i in range(20)]
                deliver(client, [record(each) for each in ids], until)
                sent.extend(ids)
                if was_killed_twice.is_set():
                    return
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    chance = random.Random(7)
    for _ in range(2):
        goal = count_flows(shared_engine) + chance.randint(100, 800)

        def reached(goal: int = goal) -> bool:
            return bool(failures) or count_flows(shared_engine) >= goal

        eventually(reached, "deliveries continue")
        shared_server.kill()
        eventually(lambda: is_free(shared_server.port), "the worker has gone with its parent")
        shared_server.start()
    was_killed_twice.set()
    for thread in threads:
        thread.join(3 * PATIENCE_S)
    assert failures == []
    assert sorted(flow.id for flow in all_flows(shared_engine)) == sorted(sent)


@pytest.fixture
def listeners(shared_server: Server) -> Listeners:
    """Start threads that read the live stream as dashboards do. Returns how many frames each has read."""
    frames = [0] * CLIENTS

    def listen(number: int) -> None:
        with requests.get(f"{shared_server.url}/api/v1/events", stream=True, timeout=PATIENCE_S) as answer:
            try:
                for _ in answer.iter_content(None):
                    frames[number] += 1
            except requests.RequestException:
                return

    threads = [threading.Thread(target=listen, args=(number,), daemon=True) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    eventually(lambda: all(frames), "every dashboard has its first frame")
    return threads, frames


def test_many_dashboards_leave_room_for_agents_and_for_an_end_in_order(
    shared_server: Server, listeners: Listeners
) -> None:
    threads, frames = listeners
    before = list(frames)
    for number in range(20):
        assert shared_server.post("flows", [record(f"f{number}")]) == {"accepted": 1, "known": 0}
    eventually(
        lambda: all(n > b + 1 for n, b in zip(frames, before, strict=True)),
        "frames arrive",
    )
    os.kill(shared_server.process.pid, signal.SIGTERM)
    assert shared_server.process.wait(PATIENCE_S) == 0
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
