# SPDX-License-Identifier: Apache-2.0
"""How the points of a sweep fare: each writes a small file, wherever it runs, and whoever shows progress reads them."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = ".status"
RUNNING, DONE, FAILED = "running", "done", "failed"
WRITE_EVERY_S = 0.5


@dataclass(frozen=True)
class Status:
    """One point's state."""

    state: str
    elapsed_s: float
    """Since it started."""
    done: int = 0
    """Flows that have ended, of …"""
    flows: int = 0
    reason: str = ""
    """Why it failed, in one line."""

    @property
    def remaining_s(self) -> float | None:
        """As the flows went so far; None before a hundredth of them has ended."""
        if self.done <= self.flows / 100:
            return None
        return max(0.0, self.elapsed_s * (self.flows / self.done - 1))


class StatusFile:
    """Written by the process that runs the point."""

    def __init__(self, folder: Path, point: str) -> None:
        self.path = folder / FOLDER / f"{point}.json"
        self._began_s = self._written_s = time.monotonic()
        self._latest = Status(RUNNING, 0.0)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write(self._latest)

    def progress(self, done: int, flows: int) -> None:
        self._latest = Status(RUNNING, self._elapsed_s(), done, flows)
        if time.monotonic() >= self._written_s + WRITE_EVERY_S:
            self._write(self._latest)

    def end(self, state: str, reason: str = "") -> None:
        latest = self._latest
        self._write(Status(state, self._elapsed_s(), latest.done, latest.flows, reason))

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _write(self, status: Status) -> None:
        """Whoever reads sees the old or the new status, never half of one."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(status)))
        fresh.replace(self.path)
        self._written_s = time.monotonic()


def read_status(folder: Path, point: str) -> Status | None:
    """None: it has not started."""
    try:
        return Status(**json.loads((folder / FOLDER / f"{point}.json").read_text()))
    except FileNotFoundError:
        return None


def remaining_s(statuses: Iterable[Status], waiting: int, jobs: int) -> float | None:
    """Seconds until the last point ends, or None while nobody can know.

    Points that wait are taken to last as long as those that ended, or, before one has, as those under way will; each
    starts where a place becomes free first.
    """
    lasted: list[float] = []
    places: list[float] = []
    expected: list[float] = []
    for status in statuses:
        if status.state == RUNNING:
            left = status.remaining_s
            places.append(-1.0 if left is None else left)
            expected += [] if left is None else [status.elapsed_s + left]
        elif status.state == DONE:
            lasted.append(status.elapsed_s)
    if not places and not waiting:
        return 0.0
    if not lasted and not expected:
        return None
    typical_s = statistics.fmean(lasted or expected)
    return _last_end_s([typical_s if left < 0 else left for left in places], waiting, jobs, typical_s)


def _last_end_s(places: Sequence[float], waiting: int, jobs: int, typical_s: float) -> float:
    busy = sorted([*places, *[0.0] * (jobs - len(places))])
    for _ in range(waiting):
        busy[0] += typical_s
        busy.sort()
    return max(busy)
