# SPDX-License-Identifier: Apache-2.0
"""Several web workers on one store give the same answers."""

import json
import os
import signal
import threading
import time
from functools import partial
from itertools import count
from typing import Any

import psutil
import requests

from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flows import all_flows
from tests.pg.conftest import workers_of
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, TOKEN, Server

CLIENTS = 8
BATCHES = 20


class Listener(threading.Thread):
    """A dashboard: the live stream's events and snapshots."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.events: list[str] = []
        self.schemes: set[str] = set()
        self.snapshots = self.flows = 0

    def run(self) -> None:
        name = ""
        with requests.get(f"{self.url}/api/v1/events", stream=True, timeout=PATIENCE_S) as answer:
            try:
                for line in answer.iter_lines():
                    field, _, value = line.decode().partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        self.take(name, json.loads(value))
            except requests.RequestException:
                return

    def take(self, name: str, document: dict[str, Any]) -> None:
        if name == "event":
            self.events.append(document["kind"])
        elif name == "snapshot":
            self.snapshots += 1
            self.flows = document["traffic"]["scheduled"]["fct"]["classes"]["all"]["n"]
            if document["policy"]:
                self.schemes.add(document["policy"]["policy"]["scheme"])


def clients_by_worker(server: Server) -> dict[int, int]:
    """Return how many connections to the TCP port each worker holds."""
    return {
        worker.pid: sum(
            c.laddr.port == server.port and c.status == psutil.CONN_ESTABLISHED
            for c in worker.net_connections()
        )
        for worker in workers_of(server)
    }


def test_every_worker_shows_everything(workers: Server) -> None:
    listeners: list[Listener] = []

    def several_workers_have_some() -> bool:
        """Add dashboards until another worker serves some. A worker that is still starting takes none."""
        listeners.append(Listener(workers.url))
        listeners[-1].start()
        wait_until(lambda: listeners[-1].snapshots, "its first snapshot", timeout_s=PATIENCE_S)
        held = clients_by_worker(workers).values()
        return len(listeners) >= CLIENTS and sum(count > 0 for count in held) > 1

    wait_until(
        several_workers_have_some, "dashboards on several workers", timeout_s=PATIENCE_S, interval_s=0.1
    )
    answer = requests.put(
        f"{workers.url}/api/v1/policy?wait_s=0",
        json={"scheme": "dctcp"},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 202
    for number in range(BATCHES):
        batch = [record(f"{number}.{i}") for i in range(3)]
        assert requests.post(f"{workers.url}/api/v1/flows", json=batch, timeout=PATIENCE_S).ok

    def all_see() -> bool:
        return all(
            "policy-requested" in one.events and "dctcp" in one.schemes and one.flows == 3 * BATCHES
            for one in listeners
        )

    wait_until(all_see, "every dashboard sees event, policy and flows", timeout_s=PATIENCE_S)
    assert [one.events.count("policy-requested") for one in listeners] == [1] * len(listeners)

    def exposed() -> list[str]:
        """Return the lines that are not zero. Each call uses a new connection, so that every
        worker answers some."""
        lines = requests.get(f"{workers.url}/metrics", timeout=PATIENCE_S).text.splitlines()
        ours = [
            line
            for line in lines
            if line.startswith(("sluice_flows_total", "sluice_ingestion_seconds_count"))
        ]
        return sorted(line for line in ours if not line.endswith(" 0.0"))

    wanted = [
        f'sluice_flows_total{{scheme="pias",source="scheduled",status="finished"}} {3 * BATCHES}.0',
        f"sluice_ingestion_seconds_count {BATCHES}.0",
    ]
    # Another worker's counts are in the store after its next turn.
    wait_until(
        lambda: [exposed() for _ in range(12)] == [sorted(wanted)] * 12, "metrics agree", timeout_s=PATIENCE_S
    )


def test_kill_9_of_workers_amid_deliveries__no_record_is_lost_or_doubled(workers: Server) -> None:
    """Deliveries go on until the last kill, however fast the machine is."""
    senders, size, kills = 4, 8, 3
    until = time.monotonic() + 2 * PATIENCE_S
    was_last_kill = threading.Event()
    failures: list[str] = []
    acknowledged: list[str] = []

    def send(sender: int) -> None:
        client = HttpClient(f"unix:{workers.socket_path}", 10)
        for batch in count():
            names = [f"sent.{sender}.{batch}.{i}" for i in range(size)]
            body = json.dumps([record(name) for name in names]).encode()
            while time.monotonic() < until:
                try:
                    answer = client.post("/api/v1/flows", body)
                except ServerAway:
                    continue
                if answer.status == 200:
                    acknowledged.extend(names)
                    break
            else:
                failures.append(f"{sender}.{batch} was never acknowledged")
            if failures or was_last_kill.is_set():
                return

    def reached(goal: int) -> bool:
        return len(acknowledged) >= goal

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            goal = len(acknowledged) + 20 * size
            wait_until(partial(reached, goal), "the deliveries continue", timeout_s=PATIENCE_S)
            os.kill(workers_of(workers)[0].pid, signal.SIGKILL)
    finally:
        was_last_kill.set()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    assert failures == []
    engine = open_store(workers.store_url)
    kept = [flow.id for flow in all_flows(engine) if flow.id.startswith("sent.")]
    engine.dispose()
    assert len(kept) == len(set(kept))
    assert set(kept) == set(acknowledged)
