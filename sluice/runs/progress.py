# SPDX-License-Identifier: Apache-2.0
"""The progress of a run, in the same form on both fabrics: the figures so far, the time left, progress.json.

The figures have exact counts and means, and 99th percentiles from a histogram, in memory of a fixed size. progress.json
in a run's folder is for `sluice top` and the page of runs. The process of the run writes it twice a second, and deletes
it when the bundle is complete. A sweep keeps such files of its points, too.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.figures.metrics import FlowFigures
from sluice.policy.wire.records import ALL, SIZE_CLASSES
from sluice.policy.workload.scenario import Scenario

_STEP = math.log(1.02)
_BINS = math.ceil(math.log(1e11) / _STEP)
"""Bins that are 2 % wide, from 1 µs to a day."""


class RunningFigures:
    """The figures of the flows that have ended so far."""

    def __init__(self) -> None:
        self._counts = np.zeros((len(SIZE_CLASSES), _BINS), np.int64)
        self._sums_us = np.zeros(len(SIZE_CLASSES))
        self._deadlines = self._missed = self._unfinished = 0

    def add(self, flows: FlowFigures) -> None:
        """Add flows that have ended."""
        finished = ~np.isnan(flows.fct_us)
        fct_us, classes = flows.fct_us[finished], flows.size_class[finished]
        bins = np.clip(np.log(np.maximum(fct_us, 1.0)) / _STEP, 0, _BINS - 1).astype(np.int64)
        np.add.at(self._counts, (classes, bins), 1)
        self._sums_us += np.bincount(classes, weights=fct_us, minlength=len(SIZE_CLASSES))
        self._unfinished += int((~finished).sum())
        self._deadlines += int(flows.has_deadline.sum())
        self._missed += int((flows.has_deadline & ~flows.met).sum())

    def document(self) -> dict[str, Any]:
        """Return the figures by size class as JSON. A 99th percentile is within 1 % of the exact one."""
        classes = {
            name: _figures(self._counts[i], float(self._sums_us[i])) for i, name in enumerate(SIZE_CLASSES)
        }
        whole = _figures(self._counts.sum(axis=0), float(self._sums_us.sum()))
        return {
            "classes": {**classes, ALL: whole},
            "deadlines": self._deadlines,
            "missed": self._missed,
            "unfinished": self._unfinished,
        }


def _figures(counts: np.ndarray[Any, Any], sum_us: float) -> dict[str, Any]:
    n = int(counts.sum())
    if not n:
        return {"n": 0, "mean_us": None, "p99_us": None}
    place = int(np.searchsorted(np.cumsum(counts), 0.99 * n))
    return {"n": n, "mean_us": sum_us / n, "p99_us": math.exp((place + 0.5) * _STEP)}


# ── Progress ─────────────────────────────────────────────────────────────────────────────────────────


LEAST_SHARE = 0.01
"""Before this part of a run, the time left is unknown."""


@dataclass(frozen=True)
class Progress:
    """How many flows of a run have ended, and how much time is left."""

    elapsed_s: float
    """The place of the run in `expected_s`. On the simulator both are numbers of flows."""
    expected_s: float
    recorded: int
    scheduled: int
    figures: RunningFigures | None = None
    """The figures of the flows that have ended."""

    @property
    def share(self) -> float:
        """The part of the run that is over, 0 to 1."""
        return min(max(self.elapsed_s / self.expected_s, 0.0), 1.0) if self.expected_s > 0 else 0.0

    def remaining_s(self, since_s: float) -> float | None:
        """Return the seconds left, of a run that began `since_s` ago; None while they are unknown."""
        return since_s * (1 / self.share - 1) if self.share > LEAST_SHARE else None


Report = Callable[[Progress], None]


def flow_count(scenario: Scenario) -> int:
    """Return the number of flows in a run. A fabric may have drawn only the first of them so far."""
    flows = scenario.workload.flows
    return flows if isinstance(flows, int) else len(flows)


# ── progress.json ────────────────────────────────────────────────────────────────────────────────────


FILE = "progress.json"
RUNNING, DONE, FAILED = "running", "done", "failed"
WRITE_EVERY_S = 0.5
MOST_BYTES = 20_000
"""A longer file is none of a run."""
MOST_REASON = 2_000
"""Characters of a reason. The log has all of them."""


@dataclass(frozen=True)
class RunState:
    """The state of one run."""

    pid: int
    born: int
    """When the kernel started the process, so that another one with its number is not taken for it."""
    name: str
    scheme: str
    on: str
    started_at: float
    state: str = RUNNING
    elapsed_s: float = 0.0
    share: float = 0.0
    """The part of the run that is over, 0 to 1."""
    recorded: int = 0
    scheduled: int = 0
    remaining_s: float | None = None
    figures: Mapping[str, Any] | None = None
    """The partial figures, as `RunningFigures.document` returns them."""
    reason: str = ""
    """Why it failed, in one line."""

    @property
    def is_alive(self) -> bool:
        """Whether the run's process still runs."""
        return self.state == RUNNING and born_at(self.pid) == self.born


class ProgressFile:
    """The file of one run. A full disk does not stop the run."""

    def __init__(self, out: Path, *, name: str, scheme: str, on: str) -> None:
        self._path = out / FILE
        self._began_s = time.monotonic()
        self._written_s = 0.0
        self._state = RunState(os.getpid(), born_at(os.getpid()) or 0, name, scheme, on, time.time())
        with suppress(OSError):
            out.mkdir(parents=True, exist_ok=True)
        self._write()

    def report(self, progress: Progress) -> None:
        """Write the progress, if the last writing is long enough ago."""
        self.update(
            lambda elapsed_s: {
                "share": progress.share,
                "recorded": progress.recorded,
                "scheduled": progress.scheduled,
                "remaining_s": progress.remaining_s(elapsed_s),
                "figures": progress.figures.document() if progress.figures else None,
            }
        )

    def update(self, changes: Callable[[float], Mapping[str, Any]]) -> None:
        """Write changed fields of the state, if the last writing is long enough ago.

        `changes` gets the seconds since the start. It is called only if they are written, because figures cost time.
        """
        now_s = time.monotonic()
        if now_s < self._written_s + WRITE_EVERY_S:
            return
        elapsed_s = now_s - self._began_s
        self._state = replace(self._state, elapsed_s=elapsed_s, **changes(elapsed_s))
        self._write()

    def fail(self, reason: str) -> None:
        """Keep the file, with the reason why there is no bundle."""
        self._end(state=FAILED, reason=reason[:MOST_REASON])

    def keep(self) -> None:
        """Keep the file, with the time that the run took."""
        self._end(state=DONE, share=1.0)

    def _end(self, **changes: Any) -> None:
        elapsed_s = time.monotonic() - self._began_s
        self._state = replace(self._state, elapsed_s=elapsed_s, remaining_s=None, **changes)
        self._write()

    @property
    def has_failed(self) -> bool:
        return self._state.state == FAILED

    def remove(self) -> None:
        """Delete the file: the bundle is complete."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        """Replace the file at once, so that a reader sees the old or the new state, never a mixture."""
        self._written_s = time.monotonic()
        fresh = self._path.with_suffix(".new")
        with suppress(OSError):
            fresh.write_text(json.dumps(asdict(self._state)))
            fresh.replace(self._path)


@contextmanager
def progress_file(out: Path, *, name: str, scheme: str, on: str) -> Iterator[ProgressFile]:
    """Keep the file of a run while the run lasts. An interrupted run has a bundle, so its file goes, too.

    A file that says why the run has failed stays.
    """
    file = ProgressFile(out, name=name, scheme=scheme, on=on)
    try:
        yield file
    except Exception as error:
        file.fail(str(error) or type(error).__name__)
        raise
    except BaseException:
        file.remove()
        raise
    if not file.has_failed:
        file.remove()


def read_state(out: Path) -> RunState | None:
    """Return the state of the run in this folder; None if none runs or has failed there."""
    try:
        with (out / FILE).open() as file:
            return RunState(**json.loads(file.read(MOST_BYTES)))
    except (OSError, ValueError, TypeError):
        return None


def born_at(pid: int) -> int | None:
    """Return when the kernel started a process, in its ticks since the boot; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
