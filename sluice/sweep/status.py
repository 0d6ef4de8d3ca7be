# SPDX-License-Identifier: Apache-2.0
"""The states of a sweep's points. Each point writes a small file on its machine; the display reads
all files."""

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
    """The state of one point."""

    state: str
    elapsed_s: float
    """Seconds since it started."""
    done: int = 0
    """Flows that have ended, out of `flows`."""
    flows: int = 0
    reason: str = ""
    """Why it failed, in one line."""

    @property
    def remaining_s(self) -> float | None:
        """An estimate from the flows that have ended; None before a hundredth of them has ended."""
        if self.done <= self.flows / 100:
            return None
        return max(0.0, self.elapsed_s * (self.flows / self.done - 1))


class StatusFile:
    """The file of one point. Only the process that runs the point writes it."""

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
        """Replace the file at once, so that a reader sees the old or the new status, never a mixture."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(status)))
        fresh.replace(self.path)
        self._written_s = time.monotonic()


def read_status(folder: Path, point: str) -> Status | None:
    """Return the status of a point; None if it has not started."""
    try:
        return Status(**json.loads((folder / FOLDER / f"{point}.json").read_text()))
    except FileNotFoundError:
        return None


def remaining_s(statuses: Iterable[Status], waiting: int, jobs: int) -> float | None:
    """Return the seconds until the last point ends; None while they are unknown.

    Waiting points count as long as the ended ones took. Before any has ended, they count as long
    as the running ones will take. Each starts at the first free place.
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
