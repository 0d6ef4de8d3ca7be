# SPDX-License-Identifier: Apache-2.0
"""A scheme against itself: how often a report of `sluice compare` says "better" or "worse" of equal schemes.

Each report has two sides under DCTCP with the same flows, as a table of flows for each seed. On both sides, each flow
starts later by less than a packet takes (`workload.vary`), so the sides differ as little as two runs of one scheme
can. What a report of them says is wrong. Its level is 5 %, so one report of twenty may say something.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from experiments.kit.runners import JOBS, NamedPoint, run_all
from sluice.commands.arguments import at_least_one
from sluice.policy.figures.scoreboard import BETTER, WORSE
from sluice.policy.units import NS_PER_S
from sluice.policy.workload.scenario import scheduled_batches
from sluice.report.board import board
from sluice.report.runs import Variant, classes_present, find_runs
from sluice.runs.files import scenario_with

DOCUMENT: Mapping[str, Any] = {
    "name": "itself",
    "fabric": {
        "topology": "leaf-spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 8,
        "host_rate": "10Gbit",
        "core_rate": "20Gbit",
        "buffer": "240KB",
    },
    "scheme": {"name": "dctcp"},
}
TRAFFIC = {"sizes": "web-search", "pattern": "all-to-all", "load": 0.6}
SIDES = {"one": 2, "other": 3}
"""Side → the seed that varies its starts."""
SEEDS_OF_A_REPORT = (1, 5)
"""Without and with the seeds that a short sweep has by default."""
LEVEL = 0.05


@dataclass(frozen=True)
class Reports:
    """What the reports say, by their number of seeds."""

    reports: int
    verdicts: Mapping[int, list[int]]
    """Seeds of a report → for each report, how many figures are said to differ."""

    def wrong(self, seeds: int) -> int:
        """Return how many reports say that any figure differs."""
        return sum(count > 0 for count in self.verdicts[seeds])


def measure(given: Given) -> Reports:
    most = max(SEEDS_OF_A_REPORT)
    tables = [write_flows(given, number) for number in range(given["reports"] * most)]
    points = [point_of(given, side, number, table) for number, table in enumerate(tables) for side in SIDES]
    run_all(points, given.out, given.jobs)
    verdicts = {
        seeds: [differing(given.out, range(most * n, most * n + seeds)) for n in range(given["reports"])]
        for seeds in SEEDS_OF_A_REPORT
    }
    return Reports(given["reports"], verdicts)


def write_flows(given: Given, number: int) -> Path:
    """Write random flows as a table, and return its path."""
    workload = {**TRAFFIC, "flows": given.flows}
    scenario, _, topology = scenario_with(DOCUMENT, seed=number + 1, workload=workload)
    names = [host.name for host in topology.hosts]
    path = given.out / f"flows-{number:03d}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        print("time_ns,src,dst,bytes", file=file)
        for batch in scheduled_batches(scenario, topology, np.random.default_rng(scenario.seed)):
            starts_ns = np.round(batch.start_s * NS_PER_S).astype(int)
            for start_ns, src, dst, size in zip(starts_ns, batch.src, batch.dst, batch.bytes, strict=True):
                print(start_ns, names[src], names[dst], size, sep=",", file=file)
    return path


def point_of(given: Given, side: str, number: int, table: Path) -> NamedPoint:
    folder, seed = f"{side}-{number:03d}", SIDES[side]
    _, document, _ = scenario_with(DOCUMENT, name=folder, seed=seed, workload={"trace": str(table.resolve())})
    return NamedPoint("dctcp", None, seed, document, folder)


def differing(out: Path, numbers: range) -> int:
    """Return how many figures of a report are "better" or "worse"."""
    sides = [
        Variant(side, "dctcp", tuple(find_runs(out / f"{side}-{number:03d}" for number in numbers)))
        for side in SIDES
    ]
    table = board(sides, sides[0], None, classes_present(sides[0].runs))
    return sum(cell.verdict in (BETTER, WORSE) for row in table.rows for cell in row.cells)


def claims(reports: Reports) -> list[Claim]:
    """A level of 5 % gives more wrong reports than these in one of a hundred cases."""
    most = int(binom.ppf(0.99, reports.reports, LEVEL))
    return [
        Claim(
            f"reports with {seeds} seed{'s' if seeds > 1 else ''} that say a difference",
            f"{LEVEL * reports.reports:g} on average, at most {most}",
            f"{reports.wrong(seeds)} of {reports.reports}",
            reports.wrong(seeds) <= most,
        )
        for seeds in SEEDS_OF_A_REPORT
    ]


EXPERIMENT = Experiment(
    name="itself",
    claim="A report that compares a scheme with itself says a difference in one of twenty cases.",
    minutes=5,
    runner=Script(measure, (JOBS,)),
    flows=2000,
    options=(option("--reports", type=at_least_one, default=30, help="reports (default: %(default)s)"),),
    quick={"reports": 3, "flows": 400},
    claims=claims,
    numbers=lambda reports: {str(seeds): counts for seeds, counts in reports.verdicts.items()},
)
