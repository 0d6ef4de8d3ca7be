# SPDX-License-Identifier: Apache-2.0
"""How an experiment gets its runs: the points that it plans, and the three ways to make and read them.

Short runs share one pool of processes, because a sweep (sluice/sweep) starts a process for each point, and that takes
two seconds, more than such a run. A sweep can give points to a cluster. Points, folders and bundles are the same.
"""

import json
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rich.progress import track

from experiments.kit.experiment import Given, Option, option
from experiments.kit.runs import ATTEMPTS_FILE, Columns, Results, Runs, attempts, no_columns, read_run
from experiments.kit.workers import worker_processes
from sluice.commands.arguments import at_least_one, folder
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR
from sluice.runs.files import read_document, resolve, runner, scenario_with, setting
from sluice.runs.progress import Report
from sluice.runs.simulator_run import run_on_simulator
from sluice.runtime import plugins
from sluice.simulator import build
from sluice.sweep.points import Point, is_finished, points
from sluice.sweep.run import run_points
from sluice.sweep.table import print_outcome, rows, sweep_display
from sluice.terminal import console, progress_bar

SIMULATOR_SETTINGS: Mapping[str, Any] = {
    "links": "emulated",
    "uplink": "kernel",
    "tick": "4ms",
    "undo": "late",
    "packets_per_ack": 2,
    "ack_delay": "40ms",
}
"""Links are HTB's token buckets. A host's own port has the scheme's queues, and TCP small queues keep them short.
A kernel acknowledges every second packet, or after 40 ms. Its clock has 250 Hz."""

LINK_DELAY_US = 106.0
"""Software's time for a link of an idle testbed, in microseconds: `agreement` measured 80, 96 and 106."""


def as_emulated(document: Mapping[str, Any], delay_us: float = LINK_DELAY_US) -> dict[str, Any]:
    """Return a testbed's scenario for the simulator. The document's own settings have precedence."""
    return {
        **document,
        "fabric": {"link_delay": f"{round(delay_us * 1000)}ns", **document["fabric"]},
        "simulator": {**SIMULATOR_SETTINGS, **document.get("simulator", {})},
    }


SET = option(
    "--set",
    "a key of the scenario for all runs, for example --set fabric.buffer=240KB; may be repeated",
    type=setting,
    action="append",
    default=[],
    metavar="TABLE.KEY=VALUE",
)


@dataclass(frozen=True)
class Planned:
    """Runs whose bundles are in one folder."""

    folder: Path
    points: Sequence[Point]


Plan = Callable[[Given], Mapping[str, Planned]]
"""Returns the runs by the name of their group. Most experiments have one group."""


@dataclass(frozen=True)
class NamedPoint(Point):
    """A run with a folder name of its own, instead of one made of scheme, load and seed."""

    folder: str

    @property
    def name(self) -> str:
        return self.folder


def one_group(given: Given, points: Sequence[Point], folder: Path | None = None) -> Mapping[str, Planned]:
    """Return a plan with one group of runs. Their bundles are in `folder`, by default in `--out`."""
    return {"": Planned(folder or given.out, points)}


def axes(
    given: Given,
    scenario: Path | Mapping[str, Any],
    *,
    schemes: Sequence[str] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Point]:
    """Return every combination of schemes, loads and seeds, as `sluice sweep` makes them.

    `variants`: name → its difference from the scenario, as in a [sweep.scheme] table. With
    variants, these are the schemes. `settings`: values for all points by key ("workload.flows").
    """
    document = read_document(scenario) if isinstance(scenario, Path) else scenario
    if variants is not None:
        document = {**document, "sweep": {"scheme": variants, "schemes": list(variants)}}
    flows = {"workload.flows": given.flows} if given.flows else {}
    return points(
        document,
        schemes=schemes,
        loads=given.loads or None,
        seeds=given.seeds or None,
        settings={**flows, **(settings or {}), **dict(given.options.get("set", ()))},
    )


def named(
    document: Mapping[str, Any], variant: str, seed: int, folder: str = "", **tables: Any
) -> NamedPoint:
    """Return a run in a folder, by default `<variant>-seed<seed>`: the scenario with these tables changed."""
    folder = folder or f"{variant}-seed{seed}".replace(" ", "-")
    _, resolved, _ = scenario_with(document, name=folder, seed=seed, **tables)
    return NamedPoint(variant, None, seed, resolved, folder)


def as_on_testbed(given: Given, points: Sequence[Point]) -> list[Point]:
    """Return the points of a testbed's scenario. On the simulator they have links like the
    testbed's emulated ones."""
    if given.on != SIMULATOR:
        return list(points)
    return [replace(point, document=as_emulated(point.document)) for point in points]


def run_all(points: Sequence[Point], out: Path, jobs: int | None = None) -> None:
    """Make every run that has no bundle in `out`, `jobs` at a time; None means one for each core.

    After Ctrl-C, the active runs end and are kept. SluiceError names the failed runs, after all
    have been tried.
    """
    waiting = [point for point in points if not is_finished(out, point)]
    if not waiting:
        return
    build.build()
    with worker_processes(jobs) as workers:
        running = {workers.submit(_simulate, point.document, out / point.name): point for point in waiting}
        try:
            ended = track(as_completed(running), "runs", total=len(running), console=console)
            failed = {running[future].name: reason for future in ended if (reason := future.result())}
        except KeyboardInterrupt:
            workers.shutdown(cancel_futures=True)
            raise
    if failed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise SluiceError(f"{len(failed)} of {len(waiting)} runs failed: {reasons}")


def _simulate(document: dict[str, Any], out: Path) -> str | None:
    """Run one scenario. Returns why it failed, as text; None if it did not.

    It returns text because an exception with several arguments cannot be passed to another
    process.
    """
    try:
        plugins.load()  # those of this process, which starts the worker
        run_on_simulator(resolve(document), out)
    except SluiceError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return None


RunPoint = Callable[[Point, Path, Report], dict[str, Any]]
"""Makes the run of a point in a folder. Returns its summary."""


def run_each(points: Sequence[Point], out: Path, on: str, most: int, run: RunPoint | None = None) -> None:
    """Make every run that is missing, or that is not valid and was made less than `most` times.

    `run`: makes a run instead of the fabric's own function.
    """
    for point in points:
        bundle = out / point.name
        while not _is_enough(out, point, most):
            attempt = attempts(bundle) + 1 if is_finished(out, point) else 1
            with progress_bar(point.name) as report:
                if run is None:
                    summary = runner(on)(resolve(point.document), bundle, report)
                else:
                    summary = run(point, bundle, report)
            (bundle / ATTEMPTS_FILE).write_text(str(attempt))
            if not summary["valid"]["ok"]:
                reasons = "; ".join(summary["valid"]["reasons"])
                print(f"{point.name}: attempt {attempt} is not valid: {reasons}", file=sys.stderr)


def _is_enough(out: Path, point: Point, most: int) -> bool:
    if not is_finished(out, point):
        return False
    summary = json.loads((out / point.name / "summary.json").read_text())
    return summary["valid"]["ok"] or attempts(out / point.name) >= most


def shared_runs(folder_name: str, of: str = "") -> Option:
    """Return the option for a folder of bundles that several experiments read. `of`: which ones."""
    return option("--runs", f"folder of the bundles{of}", type=folder, default=Path("results") / folder_name)


JOBS = option("--jobs", "runs at a time (default: one for each core)", type=at_least_one)
ATTEMPTS = option("--attempts", "attempts for a run that is not valid", type=at_least_one, default=3)
ONE_ATTEMPT = {"attempts": 1}


def read_results(given: Given, planned: Mapping[str, Planned], columns: Columns = no_columns) -> Results:
    """Read the bundles of a plan. FileNotFoundError: a run is missing."""
    return Results(
        given,
        {
            name: Runs([read_run(point, group.folder, columns) for point in group.points])
            for name, group in planned.items()
        },
    )


@dataclass(frozen=True)
class _PlannedRuns(ABC):
    """A runner that makes the runs of a plan, group by group, and reads them."""

    plan: Plan
    columns: Columns = no_columns
    options: ClassVar[Sequence[Option]] = (JOBS,)
    quick: ClassVar[Mapping[str, Any]] = {}

    def __call__(self, given: Given) -> Results:
        planned = self.plan(given)
        for group in planned.values():
            self.make(group, given)
        return read_results(given, planned, self.columns)

    @abstractmethod
    def make(self, group: Planned, given: Given) -> None:
        """Make the runs that are missing. SluiceError: a run failed."""


class ShortRuns(_PlannedRuns):
    """Many short runs on the simulator, in one pool of processes."""

    def make(self, group: Planned, given: Given) -> None:
        run_all(group.points, group.folder, given.jobs)


class Sweep(_PlannedRuns):
    """Long runs on the simulator, each in a process of its own. Each group is a sweep, and its table is shown."""

    def make(self, group: Planned, given: Given) -> None:
        with sweep_display() as report:
            outcome = run_points(group.points, group.folder, jobs=given.jobs, report=report)
        if print_outcome(group.folder, rows(group.folder, outcome.finished), outcome):
            raise SluiceError(
                f"{group.folder}: {len(outcome.failed)} of {len(group.points)} runs failed; "
                "log.txt in a run's folder says why"
            )


@dataclass(frozen=True)
class RunAfterRun(_PlannedRuns):
    """One run at a time on the chosen fabric. A run that is not valid is made again."""

    run: Callable[[Given, Point, Path, Report], dict[str, Any]] | None = None
    """As `run_each` has it. An experiment can do more beside the flows."""
    options = (ATTEMPTS,)
    quick = ONE_ATTEMPT

    def make(self, group: Planned, given: Given) -> None:
        run = partial(self.run, given) if self.run else None
        run_each(group.points, group.folder, given.on, given["attempts"], run)
