# SPDX-License-Identifier: Apache-2.0
"""The clients that hold the web process up, and honest dashboards, each in a process of their own.

`python -m experiments.checks.perimeter.attacks NAME PORT SECONDS` opens every connection of an attack at the start, and
again when the server closes it. It prints how many answers of each status it got.
"""

import asyncio
import json
import re
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

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


async def run_for(seconds: float, coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run these at once, and end them after the time."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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


def take_descriptors() -> None:
    """Let this process open as many connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def attack(name: str, port: int, seconds: float) -> Counter[str]:
    """Attack a server. Returns how many answers of each status came."""
    take_descriptors()
    clients = ATTACKS[name]
    if name == "short":
        return _short(port, seconds, clients[0].first)
    answers: Counter[str] = Counter()
    all_clients = (_repeat(port, some, answers) for some in clients for _ in range(some.count))
    asyncio.run(run_for(seconds, all_clients))
    return answers


# ── Honest dashboards ───────────────────────────────────────────────────────────────────────────────


_SNAPSHOT = re.compile(rb'event: snapshot\ndata: \{"at":([0-9.]+)')
_LINE_BYTES = 8_000_000


@dataclass
class Seen:
    """What all dashboards saw."""

    lags_s: list[float] = field(default_factory=list)
    """From the time in a snapshot to its arrival."""
    snapshots: Counter[int] = field(default_factory=Counter)
    """Snapshots of each dashboard."""
    statuses: Counter[str] = field(default_factory=Counter)


async def _watch(number: int, port: int, token: str, seen: Seen) -> None:
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LINE_BYTES)
            try:
                writer.write(request.encode())
                status = await reader.readline()
                seen.statuses[status.split()[1].decode() if status else "closed"] += 1
                await _read(number, reader, seen)
            finally:
                writer.close()
        await asyncio.sleep(AGAIN_S)


async def _read(number: int, reader: asyncio.StreamReader, seen: Seen) -> None:
    while chunk := await reader.read(_LINE_BYTES):
        if snapshot := _SNAPSHOT.search(chunk):
            seen.lags_s.append(time.time() - float(snapshot[1]))
            seen.snapshots[number] += 1


def watch(port: int, token: str, count: int, seconds: float) -> dict[str, Any]:
    """Return how late the snapshots came, the fewest that a dashboard got, and the statuses of the answers."""
    take_descriptors()
    seen = Seen()
    asyncio.run(run_for(seconds, (_watch(number, port, token, seen) for number in range(count))))
    fewest = min((seen.snapshots[number] for number in range(count)), default=0)
    return {"lags_s": sorted(seen.lags_s), "fewest": fewest, "statuses": dict(seen.statuses)}


if __name__ == "__main__":
    print(json.dumps(attack(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
