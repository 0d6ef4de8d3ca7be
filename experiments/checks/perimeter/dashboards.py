# SPDX-License-Identifier: Apache-2.0
"""Honest dashboards: each reads an event stream with a token, and connects again if it ends."""

import asyncio
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from experiments.checks.perimeter.attacks import run_for, take_descriptors

_SNAPSHOT = re.compile(rb'event: snapshot\ndata: \{"at":([0-9.]+)')
_LINE_BYTES = 8_000_000
AGAIN_S = 1.0


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
