# SPDX-License-Identifier: Apache-2.0
"""The progress of a sweep, and its progress.json: `sluice top` and the page of runs read it while the sweep lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice.runs.progress_file import ProgressFile, progress_file
from sluice.sweep.points import Point
from sluice.sweep.status import Status


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
