# SPDX-License-Identifier: Apache-2.0
"""The progress of a sweep: the states of its points, the time left, and its progress.json.

Each point writes a small file on its machine, and the display reads all files. `sluice top` and the page of runs read
progress.json while the sweep lasts.
"""

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.runs.prediction import Work
from sluice.runs.progress import ProgressFile, progress_file
from sluice.sweep.points import Point

RUNNING, DONE, FAILED = "running", "done", "failed"
WRITE_EVERY_S = 0.5
STATUS = ".status"
"""Folder with the status of each point, in the folder of a sweep."""


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
    def share_done(self) -> float:
        """The part of the work that is done, as far as it is known."""
        if self.state == DONE:
            return 1.0
        is_known = self.state == RUNNING and self.done > self.flows / 100
        return self.done / self.flows if is_known else 0.0

    @property
    def remaining_s(self) -> float | None:
        """An estimate from the flows that have ended; None before a hundredth of them has ended."""
        if self.done <= self.flows / 100:
            return None
        return max(0.0, self.elapsed_s * (self.flows / self.done - 1))


class StatusFile:
    """The file of one point. Only the process that runs the point writes it."""

    def __init__(self, folder: Path, point: str) -> None:
        self.path = folder / STATUS / f"{point}.json"
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
        return Status(**json.loads((folder / STATUS / f"{point}.json").read_text()))
    except FileNotFoundError:
        return None


def remaining_s(statuses: Mapping[str, Status], works: Mapping[str, Work], jobs: int) -> float | None:
    """Return the seconds until the last point ends; None while they are unknown.

    `works` has the points of this call. A point without a status waits. Its time is its work at the pace of its scheme
    so far, or of all schemes if none of its own has moved. Each point starts at the first free place.
    """
    left = [point for point in works if point not in statuses or statuses[point].state == RUNNING]
    if not left:
        return 0.0
    pace = Pace(statuses, works)
    if not pace.is_known:
        return None
    places = [pace.left_s(point, statuses[point]) for point in left if point in statuses]
    busy = sorted([*places, *[0.0] * (jobs - len(places))])
    for point in left:
        if point not in statuses:
            busy[0] += pace.whole_s(point)
            busy.sort()
    return max(busy)


class Pace:
    """How fast points carry out their work."""

    def __init__(self, statuses: Mapping[str, Status], works: Mapping[str, Work]) -> None:
        self._works = works
        amounts = [work.amount for work in works.values() if work.amount is not None]
        self._usual = statistics.fmean(amounts) if amounts else 1.0
        times: dict[str, float] = defaultdict(float)
        done: dict[str, float] = defaultdict(float)
        for point, status in statuses.items():
            share = status.share_done
            if share and point in works:
                for scheme in (works[point].scheme, ""):  # "" is for all schemes
                    times[scheme] += status.elapsed_s
                    done[scheme] += share * self._amount(point)
        self._s_per_work = {scheme: times[scheme] / done[scheme] for scheme in done}

    @property
    def is_known(self) -> bool:
        """Whether any point has moved."""
        return bool(self._s_per_work)

    def whole_s(self, point: str) -> float:
        """Return the seconds that a point takes in all."""
        pace = self._s_per_work.get(self._works[point].scheme, self._s_per_work[""])
        return pace * self._amount(point)

    def left_s(self, point: str, status: Status) -> float:
        """Return the seconds that a running point still needs."""
        own_s = status.remaining_s
        return max(0.0, self.whole_s(point) - status.elapsed_s) if own_s is None else own_s

    def _amount(self, point: str) -> float:
        amount = self._works[point].amount
        return self._usual if amount is None else amount


@dataclass(frozen=True)
class SweepProgress:
    """The progress of a sweep."""

    points: int
    finished: int
    """Existing bundles, also those of earlier calls."""
    failed: int
    running: Mapping[str, Status]
    remaining_s: float | None

    @property
    def share(self) -> float:
        """The part of the points that is over, 0 to 1. Running points count by their flows that have ended."""
        begun = sum(status.share_done for status in self.running.values())
        return min(1.0, (self.finished + self.failed + begun) / max(1, self.points))


Report = Callable[[SweepProgress], None]


class SweepFile:
    """The progress.json of one sweep. It counts points where that of a run counts flows."""

    def __init__(self, file: ProgressFile) -> None:
        self._file = file

    def report(self, progress: SweepProgress) -> None:
        """Write the progress, if the last writing is long enough ago."""
        self._file.update(
            lambda _: {
                "share": progress.share,
                "recorded": progress.finished,
                "scheduled": progress.points,
                "remaining_s": progress.remaining_s,
            }
        )

    def end(self, points: int, failed: Mapping[str, str]) -> None:
        """Keep the file with the first reason if points have failed."""
        if failed:
            name, reason = next(iter(failed.items()))
            self._file.fail(f"{len(failed)} of {points} points failed; {name}: {reason}")


@contextmanager
def sweep_file(out: Path, points: Sequence[Point], on: str) -> Iterator[SweepFile]:
    """Keep the file of a sweep while the sweep lasts, or longer if points have failed."""
    name = str(points[0].document.get("name", "")) if points else ""
    schemes = ", ".join(dict.fromkeys(point.scheme for point in points))
    with progress_file(out, name=name, scheme=schemes, on=on) as file:
        yield SweepFile(file)
