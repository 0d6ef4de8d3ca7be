# SPDX-License-Identifier: Apache-2.0
"""The progress of a sweep: the states of its points, the time left, and its progress.json.

Each point writes a progress.json of its own on its machine, and the display reads all of them. `sluice top` and the
page of runs read that of the sweep while it lasts.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice.runs.prediction import Work
from sluice.runs.progress import (
    FAILED,
    LEAST_SHARE,
    RUNNING,
    ProgressFile,
    RunState,
    progress_file,
    read_state,
)
from sluice.sweep.points import Point

STATUS = ".status"
"""Folder with the files of the points, in the folder of a sweep."""


def status_folder(folder: Path, point: str) -> Path:
    """Return the folder with the progress.json of a point. The point's own folder is for its bundle alone."""
    return folder / STATUS / point


def read_status(folder: Path, point: str) -> RunState | None:
    """Return the state of a point; None if it has not started."""
    return read_state(status_folder(folder, point))


def remaining_s(statuses: Mapping[str, RunState], works: Mapping[str, Work], jobs: int) -> float | None:
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

    def __init__(self, statuses: Mapping[str, RunState], works: Mapping[str, Work]) -> None:
        self._works = works
        amounts = [work.amount for work in works.values() if work.amount is not None]
        self._usual = statistics.fmean(amounts) if amounts else 1.0
        times: dict[str, float] = defaultdict(float)
        done: dict[str, float] = defaultdict(float)
        for point, status in statuses.items():
            if point in works and status.share > LEAST_SHARE and status.state != FAILED:
                for scheme in (works[point].scheme, ""):  # "" is for all schemes
                    times[scheme] += status.elapsed_s
                    done[scheme] += status.share * self._amount(point)
        self._s_per_work = {scheme: times[scheme] / done[scheme] for scheme in done}

    @property
    def is_known(self) -> bool:
        """Whether any point has moved."""
        return bool(self._s_per_work)

    def whole_s(self, point: str) -> float:
        """Return the seconds that a point takes in all."""
        pace = self._s_per_work.get(self._works[point].scheme, self._s_per_work[""])
        return pace * self._amount(point)

    def left_s(self, point: str, status: RunState) -> float:
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
    running: Mapping[str, RunState]
    remaining_s: float | None

    @property
    def share(self) -> float:
        """The part of the points that is over, 0 to 1. Running points count by their own shares."""
        begun = sum(status.share for status in self.running.values())
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
