# SPDX-License-Identifier: Apache-2.0
"""The three ways to make planned runs. Each makes the missing runs and reads all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.kit.attempts import run_each
from experiments.kit.experiment import Given, Option, option
from experiments.kit.points import Plan, Planned
from experiments.kit.pool import run_all
from experiments.kit.runs import Columns, Results, no_columns, read_results
from sluice.commands.arguments import at_least_one
from sluice.policy.errors import SluiceError
from sluice.sweep import run_points
from sluice.sweep.table import print_outcome, rows, sweep_display

JOBS = option("--jobs", type=at_least_one, help="runs at a time (default: one for each core)")
ATTEMPTS = option(
    "--attempts",
    type=at_least_one,
    default=3,
    help="attempts for a run that is not valid (default: %(default)s)",
)
ONE_ATTEMPT = {"attempts": 1}


@dataclass(frozen=True)
class ShortRuns:
    """Many short runs on the simulator, in one pool of processes."""

    plan: Plan
    columns: Columns = no_columns
    options: Sequence[Option] = (JOBS,)
    quick: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, given: Given) -> Results:
        planned = self.plan(given)
        for group in planned.values():
            run_all(group.points, group.folder, given.jobs)
        return read_results(given, planned, self.columns)


@dataclass(frozen=True)
class Sweep:
    """Long runs on the simulator, each in a process of its own. Each group is a sweep."""

    plan: Plan
    columns: Columns = no_columns
    options: Sequence[Option] = (JOBS,)
    quick: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, given: Given) -> Results:
        planned = self.plan(given)
        for group in planned.values():
            _sweep(group, given.jobs)
        return read_results(given, planned, self.columns)


def _sweep(group: Planned, jobs: int | None) -> None:
    """Run the sweep and show its table. SluiceError: a run failed."""
    with sweep_display() as report:
        outcome = run_points(group.points, group.folder, jobs=jobs, report=report)
    if print_outcome(group.folder, rows(group.folder, outcome.finished), outcome):
        raise SluiceError(
            f"{group.folder}: {len(outcome.failed)} of {len(group.points)} runs failed; "
            "log.txt in a run's folder says why"
        )


@dataclass(frozen=True)
class RunAfterRun:
    """One run at a time on the chosen fabric. A run that is not valid is made again."""

    plan: Plan
    columns: Columns = no_columns
    options: Sequence[Option] = (ATTEMPTS,)
    quick: Mapping[str, Any] = field(default_factory=lambda: ONE_ATTEMPT)

    def __call__(self, given: Given) -> Results:
        planned = self.plan(given)
        for group in planned.values():
            run_each(group.points, group.folder, given.on, given["attempts"])
        return read_results(given, planned, self.columns)
