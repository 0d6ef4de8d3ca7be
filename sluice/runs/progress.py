# SPDX-License-Identifier: Apache-2.0
"""How long a run will take, and its progress, in the same form on both fabrics.

Before it starts, its work is known. On the simulator, the work is the number of bytes that cross ports, and the time
follows from the packet hops that one core usually simulates in a second. On the testbed, which runs in real time, the
work is the time in which flows start.

While it runs, its figures so far have exact counts and means, and 99th percentiles from a histogram, in memory of a
fixed size. progress.json in a run's folder is for `sluice top` and the page of runs. The process of the run writes it
twice a second, and deletes it when the bundle is complete. A sweep keeps such files of its points, too.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.figures.metrics import FlowFigures
from sluice.policy.network.graph import Topology
from sluice.policy.units import BITS_PER_BYTE, FRAME_BYTES
from sluice.policy.wire.records import ALL, SIZE_CLASSES
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.random_flows import arrival_rate_per_s
from sluice.policy.workload.scenario import Scenario
from sluice.policy.workload.sizes import Sizes, mean_wire_bytes
from sluice.runs.files import Resolved
from sluice.terminal import about, confirmed

# ── Before the run ───────────────────────────────────────────────────────────────────────────────────


def predicted_work(resolved: Resolved, on: str) -> float | None:
    """Return the work of a scenario on a fabric; None if it is unknown."""
    scenario, _, topology = resolved
    if on == TESTBED:
        return _starting_s(scenario, topology) or None
    first, *others = [host.name for host in topology.hosts]
    # The mean number of ports on the paths from the first host.
    mean_ports = float(np.mean([len(topology.one_path(first, name)) for name in others]))
    share, until_s = 1.0, scenario.simulator.until_s
    if until_s is not None and (starting_s := _starting_s(scenario, topology)) > until_s:
        share = until_s / starting_s
    return share * _wire_bytes(scenario, topology) * mean_ports or None


def _wire_bytes(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        rate_bytes_per_s = topology.ports[0].rate_bps / BITS_PER_BYTE
        return sum(
            flow.bytes or ((flow.until_s or 0.0) - flow.start_s) * rate_bytes_per_s for flow in workload.flows
        )
    return _random_bytes(workload) * ((workload.load or 1) / (workload.own_load or 1))


def _random_bytes(workload: Workload) -> float:
    """Return the wire bytes of random flows, without those of requests besides them."""
    return sum(
        flows * float(mean_wire_bytes(sizes, workload.scale).sum()) for flows, sizes in _phases(workload)
    )


def _starting_s(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        return max(flow.until_s or flow.start_s for flow in workload.flows)
    return sum(
        flows / workload.fanin / arrival_rate_per_s(workload, topology, sizes)
        for flows, sizes in _phases(workload)
    )


def _phases(workload: Workload) -> list[tuple[float, Sizes]]:
    """Return the numbers of flows with the sizes before, between and after the shifts."""
    begins = [0.0, *(shift.at for shift in workload.shifts)]
    ends = [*begins[1:], 1.0]
    parts = zip(begins, ends, workload.all_sizes, strict=True)
    return [((end - begin) * workload.flows, sizes) for begin, end, sizes in parts]


HOPS_PER_PACKET = 2.7
"""Packet hops for each data packet and switch port: ACKs and the links of hosts count, too. Between 2.3 and 2.9 in six
of seven measured scenarios, 4.2 in one with few large flows."""
USUAL_HOPS_PER_S = 2.2e6
"""Of one core, as measured over these scenarios (1.5 to 3.8 million)."""
ASK_FROM_S = 3600.0
"""From this length on, a run asks before it starts."""


def predicted_s(work: float, on: str) -> float:
    """Return the seconds that so much work takes on one core."""
    return work / FRAME_BYTES * HOPS_PER_PACKET / USUAL_HOPS_PER_S if on == SIMULATOR else work


def predicted_total_s(works: Sequence[float | None], on: str, jobs: int = 1) -> float | None:
    """Return the seconds of several runs, `jobs` at a time; None if no work is known."""
    known = [work for work in works if work is not None]
    return predicted_s(sum(known) * len(works) / len(known), on) / jobs if known else None


def check_length(predicted: float | None, yes: bool) -> None:
    """Ask before a run that takes longer than ASK_FROM_S. Raises SluiceError if the answer is no, or without a
    terminal. `yes`: the user has confirmed it beforehand."""
    if predicted is None or predicted < ASK_FROM_S:
        return
    what = f"This takes {about(predicted)}, by the pace of a usual machine."
    if yes:
        print(what, file=sys.stderr)
    elif not confirmed(what):
        raise SluiceError(f"{what} Nothing has started; add --yes to start it, or take fewer flows (--flows)")


# ── The figures so far ───────────────────────────────────────────────────────────────────────────────


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
    """The place of the run in `expected_s`. On the simulator both are numbers of flows, or simulated time."""
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
    """Return the number of flows in a run, on average over seeds if requests come besides them. A fabric may have
    drawn only the first of them so far."""
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        return len(workload.flows)
    if workload.incast is None or workload.incast.load is None or not workload.own_load:
        return workload.flows
    answers_bytes = _random_bytes(workload) * workload.incast.load / workload.own_load
    answer_bytes = float(mean_wire_bytes(workload.incast.sizes, workload.scale).sum())
    return workload.flows + round(answers_bytes / answer_bytes)


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
