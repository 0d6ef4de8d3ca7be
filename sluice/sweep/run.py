# SPDX-License-Identifier: Apache-2.0
"""Runs the points of a sweep, here or with Snakemake as jobs of a cluster: resumes, shows the progress, and leaves no
process running.
"""

import fcntl
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR
from sluice.runs import progress as states
from sluice.runs.files import runner
from sluice.runtime import extras
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn
from sluice.sweep.points import CONFIG, LOG, POINT_LOG, STATUS, Point, is_finished

SNAKEFILE = Path(__file__).with_name("Snakefile")
POLL_S = 0.2
GRACE_S = 20.0
"""The longest time that a testbed needs to end in order."""
JOBS = ".jobs"
"""Folder of the jobs' logs and of the files that say that a job is done, in the folder of a sweep."""


# ── Jobs of a cluster ────────────────────────────────────────────────────────────────────────────────


STARTUP_S = 10.0
"""Time of a job before its first point runs: imports of Snakemake and of Sluice."""
RETRIES = 3
"""How often a job that failed or was lost starts again. It runs only the points that are missing."""
DEFAULT_JOBS = 100
DEFAULT_JOB_MINUTES = 5.0
MEMORY_MB = 2048
_SPARE = 4.0
"""A job may take so many times as long as predicted before the cluster ends it."""

Batches = dict[str, list[str]]
"""Name of a job → names of its points."""


@dataclass(frozen=True)
class Cluster:
    """Where the jobs of a sweep run."""

    profile: str | None = None
    """A Snakemake profile, a folder or a name. None: Slurm without a profile."""
    job_minutes: float = DEFAULT_JOB_MINUTES

    def check(self) -> None:
        """Raise SluiceError if this machine cannot submit jobs."""
        if self.profile is not None:
            extras.need("snakemake", "--profile")
            return
        extras.need("snakemake_executor_plugin_slurm", "--cluster slurm")
        if shutil.which("sbatch") is None:
            raise SluiceError(
                "--cluster slurm: there is no sbatch here; run this on a machine that submits jobs"
            )

    def options(self, jobs: int) -> list[str]:
        """Snakemake's options for at most `jobs` jobs at a time."""
        given = ["--jobs", str(jobs), "--retries", str(RETRIES), "--latency-wait", "60"]
        if self.profile is not None:
            # A storage may still hold the outputs of an earlier call. Jobs skip points that are done.
            return [*given, "--forceall", "--profile", self.profile]
        try:
            config = run(["scontrol", "show", "config"])
        except CommandFailed as error:
            raise SluiceError(f"--cluster slurm: the cluster does not answer ({error})") from None
        # sacct tells no states of jobs on a cluster without accounting.
        status_command = "squeue" if "accounting_storage/none" in config else "sacct"
        return [
            *[*given, "--executor", "slurm", "--slurm-array-jobs", "all"],
            *["--slurm-requeue", "--slurm-no-account", "--slurm-status-command", status_command],
            *["--slurm-init-seconds-before-status-checks", "5", "--seconds-between-status-checks", "5"],
        ]


def batches(points: Sequence[Point], predicted: Mapping[str, float], job_minutes: float) -> Batches:
    """Group points into jobs of about this time. The longest points come first, so that none starts last.

    A point that is longer than a job is a job of its own.
    """
    most_s, jobs, filled = 60 * job_minutes, Batches(), dict[str, float]()
    for point in sorted(points, key=lambda point: (-predicted[point.name], point.name)):
        needed = predicted[point.name]
        name = next((name for name, taken in filled.items() if taken + needed <= most_s), None)
        if name is None:
            name = f"job-{len(jobs):04d}"
            jobs[name], filled[name] = [], 0.0
        jobs[name].append(point.name)
        filled[name] += needed
    return jobs


def job_entries(points: Sequence[Point], cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return what Snakefile and nodes read of each job: its points and its limits."""
    predicted = {point.name: states.predicted_s(point.work or 0.0, SIMULATOR) for point in points}
    return {
        job: {
            "points": names,
            "minutes": 2 + round((STARTUP_S + _SPARE * sum(predicted[name] for name in names)) / 60),
            "mem_mb": MEMORY_MB,
        }
        for job, names in batches(points, predicted, cluster.job_minutes).items()
    }


# ── The sweep ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SweepProgress:
    """The progress of a sweep."""

    points: int
    finished: int
    """Existing bundles, also those of earlier calls."""
    failed: int
    running: Mapping[str, states.RunState]
    share: float
    """The part of the sweep that is over, 0 to 1. Running points count by their own shares."""
    remaining_s: float | None
    """Seconds until the last point ends; None while they are unknown."""


Report = Callable[[SweepProgress], None]


@dataclass
class Outcome:
    """The results of a sweep's points."""

    finished: list[Point] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Name of a point → why it has no bundle."""


def run_points(
    points: Sequence[Point],
    out: Path,
    *,
    on: str = SIMULATOR,
    jobs: int | None = None,
    cluster: Cluster | None = None,
    report: Report = lambda progress: None,
) -> Outcome:
    """Run the points that have no bundle yet. If a point fails, the others still run.

    `jobs` is the number of points at a time. None means one for each core on the simulator, and
    one on the testbed, where two would take each other's CPU time. With a cluster, it is the number
    of its jobs at a time, and `out` is on a file system that the nodes share. KeyboardInterrupt stops
    the running points and keeps the finished ones.
    """
    jobs = check_start(out, on, jobs, cluster)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        _same_fabric(out, on)
        waiting = [point for point in points if not is_finished(out, point)]
        work = job_entries(waiting, cluster) if cluster else {}
        _write_config(out, on, points, work)
        with sweep_file(out, points, on) as file:

            def report_twice(progress: SweepProgress) -> None:
                report(progress)
                note(file, progress)

            if waiting:
                runner(on)  # checks the fabric, and compiles it once before several points use it
                _forget(out, waiting)
                engine = (
                    _Submitted(out, cluster.options(jobs), work) if cluster else _Here(out, waiting, jobs)
                )
                _watch(out, points, waiting, engine, report_twice)
            outcome = _outcome(out, points)
            if outcome.failed:
                name, reason = next(iter(outcome.failed.items()))
                file.fail(f"{len(outcome.failed)} of {len(points)} points failed; {name}: {reason}")
    return outcome


def sweep_file(out: Path, points: Sequence[Point], on: str) -> AbstractContextManager[states.ProgressFile]:
    """Keep the progress.json of a sweep while the sweep lasts, or longer if points have failed."""
    name = str(points[0].document.get("name", "")) if points else ""
    return states.progress_file(
        out, name=name, scheme=", ".join(dict.fromkeys(p.scheme for p in points)), on=on
    )


def note(file: states.ProgressFile, progress: SweepProgress) -> None:
    """Write the progress, if the last writing is long enough ago. It counts points where that of a run counts flows."""
    file.update(
        lambda _: {
            "share": progress.share,
            "recorded": progress.finished,
            "scheduled": progress.points,
            "remaining_s": progress.remaining_s,
        }
    )


def check_start(out: Path, on: str, jobs: int | None, cluster: Cluster | None) -> int:
    """Return how many points run at a time. Raises SluiceError if the sweep cannot start here."""
    if cluster and on != SIMULATOR:
        raise SluiceError("--cluster: only points of the simulator can run on a cluster")
    if on != SIMULATOR and jobs not in (None, 1):
        raise SluiceError(
            "--jobs: must be 1 on the testbed, because two points would take each other's CPU time"
        )
    if cluster:
        cluster.check()
    _same_fabric(out, on)
    most = DEFAULT_JOBS if cluster else len(os.sched_getaffinity(0)) if on == SIMULATOR else 1
    return jobs or most


class _Here:
    """Runs each point as a process of this machine. It has the methods of `_Submitted`."""

    def __init__(self, out: Path, waiting: Iterable[Point], jobs: int) -> None:
        self._out, self._jobs = out, jobs
        self._waiting = deque(point.name for point in waiting)
        self._running: list[subprocess.Popen[bytes]] = []

    def is_over(self) -> bool:
        """Start what can start now, and return whether no point is left."""
        self._running = [process for process in self._running if process.poll() is None]
        while self._waiting and len(self._running) < self._jobs:
            name = self._waiting.popleft()
            log = self._out / name / POINT_LOG
            log.parent.mkdir(parents=True, exist_ok=True)
            log.unlink(missing_ok=True)
            argv = [sys.executable, "-m", "sluice.sweep.point", str(self._out), name]
            self._running.append(spawn(argv, log_file=log))
        return not self._running

    def end(self) -> None:
        """Stop what still runs."""
        _interrupt(self._running)


class _Submitted:
    """Lets Snakemake run the jobs of a cluster."""

    def __init__(self, out: Path, options: Iterable[str], names: Iterable[str]) -> None:
        """`options`: Snakemake's, for the engine. `names`: of the jobs."""
        words: dict[str, Any] = {
            "--snakefile": shutil.copy(
                SNAKEFILE, out
            ),  # some engines send only files of this folder to the nodes
            "--directory": out,
            "--configfile": out / CONFIG,
            "--scheduler": "greedy",
            "--rerun-triggers": "params",
        }
        flags = ["--keep-going", "--rerun-incomplete", "--nolock", "--nocolor"]
        arguments = [str(word) for option in words.items() for word in option]
        targets = [f"{JOBS}/{name}.done" for name in names]
        argv = [sys.executable, "-m", "snakemake", *arguments, *flags, *options, "--", *targets]
        self._snakemake = spawn(argv, log_file=out / LOG)

    def is_over(self) -> bool:
        return self._snakemake.poll() is not None

    def end(self) -> None:
        _interrupt([self._snakemake])


def _interrupt(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupt the process groups, as Ctrl-C in their terminal would. Kill those that take too long."""
    left = [process for process in processes if process.poll() is None]
    for process in left:
        os.killpg(process.pid, signal.SIGINT)
    deadline = time.monotonic() + GRACE_S
    for process in left:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep a second sweep out of the folder. The kernel releases the lock if its holder dies."""
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SluiceError(f"{out}: another sweep is running in this folder") from None
        yield


def _same_fabric(out: Path, on: str) -> None:
    try:
        before = json.loads((out / CONFIG).read_text())["on"]
    except FileNotFoundError:
        return
    if before != on:
        raise SluiceError(f"{out} holds a sweep on the {before}; give another folder with --out")


def _write_config(out: Path, on: str, points: Sequence[Point], jobs: Mapping[str, Any]) -> None:
    """`jobs`: those of a cluster."""
    entries = {
        point.name: {
            "scheme": point.scheme,
            "load": point.load,
            "seed": point.seed,
            "document": point.document,
        }
        for point in points
    }
    fresh = out / f"{CONFIG}.new"
    config = {"on": on, "cwd": str(Path.cwd()), "points": entries, "jobs": jobs}
    fresh.write_text(json.dumps(config, indent=1, default=str) + "\n")
    fresh.replace(out / CONFIG)


def _forget(out: Path, waiting: Sequence[Point]) -> None:
    """Delete bundles of other scenarios and the states of earlier attempts, so that they cannot
    pass for this sweep's."""
    for folder in (STATUS, JOBS):
        shutil.rmtree(out / folder, ignore_errors=True)
    for point in waiting:
        (out / point.name / "summary.json").unlink(missing_ok=True)


def _watch(
    out: Path,
    points: Sequence[Point],
    waiting: Sequence[Point],
    engine: _Here | _Submitted,
    report: Report,
) -> None:
    """Report the progress until the engine has run the waiting points."""
    began_s = time.monotonic()
    works = {point.name: point.work for point in waiting}
    try:
        while not engine.is_over():
            report(progress_of(out, len(points), works, time.monotonic() - began_s))
            time.sleep(POLL_S)
    finally:
        engine.end()
    report(progress_of(out, len(points), works, time.monotonic() - began_s))


def progress_of(out: Path, points: int, works: Mapping[str, float | None], since_s: float) -> SweepProgress:
    """Return the progress of so many points. `works` has those that this call runs, since so many seconds.

    The time left follows from the part of their work that is over. A point of unknown work counts as a mean one.
    """
    known = [work for work in works.values() if work is not None]
    mean = statistics.fmean(known) if known else 1.0
    amounts = {name: mean if work is None else work for name, work in works.items()}
    begun = {name: state for name in works if (state := states.read_state(out / STATUS / name))}
    running = {name: state for name, state in begun.items() if state.state == states.RUNNING}
    over = sum(amounts[name] * (state.share if name in running else 1.0) for name, state in begun.items())
    share, before = over / sum(amounts.values()), points - len(works)
    return SweepProgress(
        points=points,
        finished=before + sum(state.state == states.DONE for state in begun.values()),
        failed=sum(state.state == states.FAILED for state in begun.values()),
        running=running,
        share=(before + share * len(works)) / points,
        remaining_s=since_s * (1 / share - 1) if share > states.LEAST_SHARE else None,
    )


def _outcome(out: Path, points: Sequence[Point]) -> Outcome:
    outcome = Outcome()
    for point in points:
        if is_finished(out, point):
            outcome.finished.append(point)
            continue
        status, log = states.read_state(out / STATUS / point.name), out / point.name / POINT_LOG
        if status is None:
            reason = f"it did not start; see {log if log.exists() else out / LOG}"
        else:
            reason = status.reason or f"its process ended without a message (killed?); see {log}"
        outcome.failed[point.name] = reason
    return outcome
