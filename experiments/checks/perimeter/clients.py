# SPDX-License-Identifier: Apache-2.0
"""Clients that hold the web process up, in a process of their own, and honest agents that measure themselves.

`python -m experiments.checks.perimeter.clients NAME PORT SECONDS` opens every connection of an attack at the start, and
again when the server closes it. It prints how many answers of each status it got.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from experiments.kit.live import idle_heartbeat
from sluice.policy.wire.agents import heartbeat_document
from sluice.runtime.http_client import HttpClient, ServerAway

AGAIN_S = 1.0
"""The pause before a closed connection is opened again."""
DRIP_S = 1.0
"""The pause between two pieces of a slow client."""
SHORT_PER_S = 10_000

_JSON = b"Content-Type: application/json\r\n"


@dataclass(frozen=True)
class Clients:
    """Some clients that all do the same."""

    name: str
    count: int
    first: bytes = b""
    """What each sends at once."""
    drip: bytes = b""
    """What it sends each second afterwards."""
    reads: bool = True
    """Whether it reads its answer."""
    half_closes: bool = False
    """Whether it ends its sending side after `first`."""


def _get(path: str, more: bytes = b"", version: str = "1.1", host: str = "localhost") -> bytes:
    return f"GET {path} HTTP/{version}\r\nHost: {host}\r\n".encode() + more + b"\r\n"


def _post(more: bytes, body: bytes, version: str = "1.1") -> bytes:
    head = f"POST /api/v1/flows HTTP/{version}\r\nHost: localhost\r\n".encode()
    return head + _JSON + more + b"\r\n" + body


_EVENTS, _HEALTH = "/api/v1/events", "/api/v1/health"
_LONG, _CHUNKED = b"Content-Length: 100000\r\n", b"Transfer-Encoding: chunked\r\n"
_UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
_LONG_HEAD = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 8192) for i in range(100))

ATTACKS: Mapping[str, Sequence[Clients]] = {
    "slow": [
        Clients("slow body", 70, _post(_LONG, b""), b" "),
        Clients("half header", 70, _get("/", b"X-Slow: ")[:-2], b" "),
        Clients("stream", 300, _get(_EVENTS)),
        Clients("silent", 1200),
    ],
    "unread": [
        Clients("stream", 300, _get(_EVENTS), reads=False),
        Clients("body", 200, _post(_LONG, b"["), reads=False),
    ],
    "HTTP/1.0": [
        Clients("stream", 300, _get(_EVENTS, version="1.0"), reads=False),
        Clients("body", 200, _post(_LONG, b"[", "1.0"), reads=False),
    ],
    "chunks": [Clients("chunks", 300, _post(_CHUNKED, b""), b"1\r\n \r\n")],
    "headers": [
        Clients("100 × 8 KB", 200, _get("/", _LONG_HEAD)),
        Clients("line", 50, b"GET /" + b"a" * 800_000),
    ],
    "forms": [
        Clients("absolute", 100, _get("http://evil.example" + _EVENTS)),
        Clients("upgrade", 100, _get(_EVENTS, _UPGRADE), reads=False),
        Clients("IPv6", 100, _get(_EVENTS, host="[fe80::1%25eth0]:80")),
        Clients("100-continue", 100, _post(_LONG + b"Expect: 100-continue\r\n", b"")),
        Clients("half-closed", 100, _get(_HEALTH), half_closes=True),
    ],
    "hoard": [
        Clients("pipelined", 30, _get(_HEALTH) * 100, reads=False),
        Clients("kept open", 3000, _get("/static/nothing")),
    ],
    "short": [Clients("short", SHORT_PER_S, _get(_HEALTH))],
}
"""By name; `short` opens SHORT_PER_S connections a second, and closes each after the request."""


async def _repeat(port: int, clients: Clients, answers: Counter[str]) -> None:
    while True:
        with suppress(OSError):
            await _once(port, clients, answers)
        await asyncio.sleep(AGAIN_S)


async def _once(port: int, clients: Clients, answers: Counter[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(clients.first)
    sending = asyncio.ensure_future(_drip(reader, writer, clients))
    try:
        if not clients.reads:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await sending
            return
        if status := await reader.readline():
            answers[f"{clients.name} {status.split()[1].decode()}"] += 1
        while await reader.read(65_536):
            pass
    finally:
        sending.cancel()
        writer.transport.abort()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clients: Clients) -> None:
    if clients.half_closes:
        writer.write_eof()
    while not reader.at_eof() and not writer.is_closing():
        if clients.drip:
            writer.write(clients.drip)
        await asyncio.sleep(DRIP_S)


async def _attack(port: int, seconds: float, attack: Sequence[Clients]) -> Counter[str]:
    answers: Counter[str] = Counter()
    tasks = [
        asyncio.ensure_future(_repeat(port, clients, answers))
        for clients in attack
        for _ in range(clients.count)
    ]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return answers


def _short(port: int, seconds: float, request: bytes) -> Counter[str]:
    """Open connections at the rate, or as fast as the server takes them."""
    answers: Counter[str] = Counter()
    began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if sum(answers.values()) > SHORT_PER_S * (now - began):
            time.sleep(0.001)
            continue
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
                connection.sendall(request)
            answers["short sent"] += 1
        except OSError:
            answers["short failed"] += 1
    return answers


def main() -> None:
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attack = ATTACKS[name]
    short = name == "short"
    print(
        json.dumps(
            _short(port, seconds, attack[0].first) if short else asyncio.run(_attack(port, seconds, attack))
        )
    )


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


if __name__ == "__main__":
    main()
