# SPDX-License-Identifier: Apache-2.0
"""Honest agents that measure themselves: a heartbeat and a batch of records each second."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from experiments.kit.heartbeats import idle_heartbeat
from sluice.policy.wire.agents import heartbeat_document
from sluice.runtime.http_client import HttpClient, ServerAway

EVERY_S = 1.0
BATCH = 50
TIMEOUT_S = 5.0


@dataclass
class Times:
    """What an agent or a watcher has measured."""

    heartbeat_ages_s: list[float] = field(default_factory=list)
    """Time since the last heartbeat that the web process has taken, at the moment when it takes the next one."""
    record_waits_s: list[float] = field(default_factory=list)
    """From the making of a batch to the answer that it is stored."""
    health_s: list[float] = field(default_factory=list)
    failures: int = 0


class Agent(threading.Thread):
    """An agent until `until` (monotonic seconds)."""

    def __init__(self, name: str, url: str, until: float, times: Times) -> None:
        super().__init__(daemon=True)
        self.name = name
        self._web = HttpClient(url, TIMEOUT_S)
        self._until, self._times = until, times
        self._sent = time.time_ns()  # each run has ids of its own
        self._waiting: list[tuple[float, bytes]] = []

    def run(self) -> None:
        beat = json.dumps(heartbeat_document(idle_heartbeat())).encode()
        taken_at = due = time.monotonic()
        while (now := time.monotonic()) < self._until:
            self._waiting.append((now, self._batch()))
            if self._post(f"/api/v1/agents/{self.name}", beat):
                self._times.heartbeat_ages_s.append(time.monotonic() - taken_at)
                taken_at = time.monotonic()
            self._deliver()
            due = max(due + EVERY_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        self._times.heartbeat_ages_s.append(time.monotonic() - taken_at)
        self._times.record_waits_s += [time.monotonic() - made_at for made_at, _ in self._waiting]

    def _deliver(self) -> None:
        while self._waiting and time.monotonic() < self._until:
            made_at, body = self._waiting[0]
            if not self._post("/api/v1/flows", body):
                return
            self._times.record_waits_s.append(time.monotonic() - made_at)
            self._waiting.pop(0)

    def _post(self, path: str, body: bytes) -> bool:
        try:
            if self._web.post(path, body).ok:
                return True
        except ServerAway:
            pass
        self._times.failures += 1
        return False

    def _batch(self) -> bytes:
        self._sent += BATCH
        return json.dumps([_record(self.name, self._sent + i) for i in range(BATCH)]).encode()


class HealthWatcher(threading.Thread):
    """Asks /health on a new connection twice a second, as a load balancer does."""

    def __init__(self, url: str, until: float, times: Times) -> None:
        super().__init__(daemon=True)
        self._url, self._until, self._times = url, until, times

    def run(self) -> None:
        while time.monotonic() < self._until:
            began = time.monotonic()
            client = HttpClient(self._url, 2 * TIMEOUT_S)
            try:
                client.get("/api/v1/health")
            except ServerAway:
                self._times.failures += 1
            client.close()
            self._times.health_s.append(time.monotonic() - began)
            time.sleep(EVERY_S / 2)


def _record(src: str, number: int) -> dict[str, Any]:
    return {
        "id": f"{src}/{number}",
        "src": src,
        "dst": "h0",
        "bytes": 10_000,
        "size_class": "small",
        "started_at": time.time() - 0.002,
        "fct_us": 2000.0,
        "ideal_us": 900.0,
        "deadline_us": None,
        "met": None,
        "retransmissions": 0,
        "congestion_control": "cubic",
        "scheme": "tcp",
        "status": "finished",
        "reason": "",
    }
