# SPDX-License-Identifier: Apache-2.0
"""What the figures depend on beyond the paper: one thing of the set-up is changed at a time.

The table has the change from a static threshold of 1000 KB, and of 1 KB, to 10 KB, where
adaptation settles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from experiments.kit.experiment import Claim, Experiment, Given, option
from experiments.kit.runners import Planned, ShortRuns, one_group
from experiments.kit.runs import Difference, Results, signed
from experiments.papers.adaptive_thresholds.common import CAUSES, FLOWS, cause_points, columns, runs_folder
from sluice.commands.arguments import folder

VARIANTS = ("static-1KB", "static-10KB", "static-1000KB")
COLUMNS = (
    ("short_mean", "1KB"),
    ("short_p99", "1KB"),
    ("short_mean", "1000KB"),
    ("short_p99", "1000KB"),
    ("long_mean", "1000KB"),
    ("long_p99", "1000KB"),
)
LARGEST = {
    ("headers-window-10", "short_mean", "1KB"): -0.335,
    ("headers-window-10", "short_p99", "1KB"): -0.595,
    ("no-marks-3600KB", "short_mean", "1000KB"): -0.86,
    ("headers-counted", "long_mean", "1000KB"): -0.467,
}
"""The paper's largest changes, each with the set-up in which it appears."""
NEAR = 0.1


def plan(given: Given) -> Mapping[str, Planned]:
    return one_group(given, cause_points(given, list(CAUSES), VARIANTS), runs_folder(given))


def change(results: Results, cause: str, figure: str, start: str, load: float) -> Difference:
    """Return the change from the threshold at `start` to the threshold at 10 KB."""
    return results.runs.change(figure, f"{cause}-static-10KB", f"{cause}-static-{start}", load)


def claims(results: Results) -> list[Claim]:
    load = results.runs.loads[-1]
    return [
        Claim(
            f"{cause}, load {load:g}: {figure.replace('_', ' ')} from {start}",
            signed(f"{paper:+.1%}"),
            str(found := change(results, cause, figure, start, load)),
            abs(found.mean - paper) <= NEAR,
        )
        for (cause, figure, start), paper in LARGEST.items()
    ]


def rows(results: Results) -> Iterator[str]:
    """Yield a line for each set-up and load."""
    yield "| set-up | load | " + " | ".join(f"{f.replace('_', ' ')}, {start}" for f, start in COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    for cause in CAUSES:
        for load in results.runs.loads:
            cells = [f"{change(results, cause, f, start, load).mean:+.0%}" for f, start in COLUMNS]
            yield signed(f"| {cause} | {load:g} | {' | '.join(cells)} |")


def numbers(results: Results) -> dict[str, dict[str, dict[str, object]]]:
    return {
        cause: {
            f"{load:g}": {f"{f}, {s}": change(results, cause, f, s, load).to_document() for f, s in COLUMNS}
            for load in results.runs.loads
        }
        for cause in CAUSES
    }


EXPERIMENT = Experiment(
    name="dyna_causes",
    claim="The paper's largest changes appear when one thing changes that it leaves open.",
    figure="Gutiérrez et al., Figs. 6–8",
    minutes=2,
    about=__doc__,
    runner=ShortRuns(plan, columns),
    seeds=(1, 2, 3),
    loads=(0.5, 0.9),
    flows=FLOWS,
    options=(
        option(
            "--runs",
            type=folder,
            default=Path("results/dyna-causes"),
            help="folder of the bundles (default: %(default)s)",
        ),
    ),
    quick={"seeds": (1, 2)},
    claims=claims,
    numbers=numbers,
    table=lambda results: "\n".join(rows(results)) + "\n",
)
