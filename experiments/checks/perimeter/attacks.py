# SPDX-License-Identifier: Apache-2.0
"""The clients that hold the web process up, all at once, in a process of their own.

`python -m experiments.checks.perimeter.attacks PORT SECONDS` opens every connection at the start, and again when the
server closes it. It prints how many answers of each status it got.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

SLOW_POSTS, HALF_HEADERS, STREAMS, SILENT = 70, 70, 300, 1200
AGAIN_S = 1.0
"""The pause before a closed connection is opened again."""
DRIP_S = 1.0
"""The pause between two bytes of a slow client."""

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Attack: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_HEAD = (
    b"POST /api/v1/flows HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
)


async def slow_post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_HEAD)
    await _drip(reader, writer)


async def half_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    await _drip(reader, writer)


async def stream(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Send nothing."""


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while not reader.at_eof() and not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(DRIP_S)


ATTACKS: dict[Attack, int] = {
    slow_post: SLOW_POSTS,
    half_header: HALF_HEADERS,
    stream: STREAMS,
    silent: SILENT,
}


async def _repeat(port: int, attack: Attack, answers: Counter[str]) -> None:
    while True:
        with suppress(OSError):
            await _once(port, attack, answers)
        await asyncio.sleep(AGAIN_S)


async def _once(port: int, attack: Attack, answers: Counter[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.ensure_future(attack(reader, writer))
    try:
        if status := await reader.readline():
            answers[f"{attack.__name__} {status.split()[1].decode()}"] += 1
        while await reader.read(65_536):
            pass
    finally:
        sending.cancel()
        with suppress(OSError, asyncio.CancelledError):
            await sending
        writer.close()


async def attack_all(port: int, seconds: float) -> Counter[str]:
    """Return how many answers of each attack had each status."""
    answers: Counter[str] = Counter()
    tasks = [
        asyncio.ensure_future(_repeat(port, attack, answers))
        for attack, count in ATTACKS.items()
        for _ in range(count)
    ]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return answers


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(json.dumps(asyncio.run(attack_all(int(sys.argv[1]), float(sys.argv[2])))))


if __name__ == "__main__":
    main()
