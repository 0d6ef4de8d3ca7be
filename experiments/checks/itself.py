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

from scipy.stats import binom

from experiments.kit.experiment import Claim, Experiment, Given, Script, option
from experiments.kit.runners import JOBS, named, run_all
from experiments.papers.sluice.traffic import Traffic, write_table
from sluice.commands.arguments import at_least_one
from sluice.policy.figures.scoreboard import BETTER, WORSE
from sluice.report.runs import Variant, classes_present, find_runs
from sluice.report.tables import board
from sluice.runs.files import load_cdf
from sluice.sweep.points import DEFAULT_SEEDS

LEAVES, HOSTS, HOST_RATE_BPS, LOAD = 2, 16, 10**10, 0.6
DOCUMENT: Mapping[str, Any] = {
    "name": "itself",
    "fabric": {
        "topology": "leaf-spine",
        "leaves": LEAVES,
        "spines": 2,
        "hosts_per_leaf": HOSTS // LEAVES,
        "host_rate": f"{HOST_RATE_BPS}bit",
        "core_rate": "20Gbit",
        "buffer": "240KB",
    },
    "scheme": {"name": "dctcp"},
}
SIDES = {"one": 2, "other": 3}
"""Side → the seed that varies its starts."""
SEEDS_OF_A_REPORT = (1, DEFAULT_SEEDS)
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
    traffic = Traffic(load_cdf("web-search"), LOAD, (HOST_RATE_BPS,) * HOSTS)
    tables = [
        write_table(traffic, given.flows, number + 1, (given.out / f"flows-{number:03d}.csv").resolve())
        for number in range(given["reports"] * most)
    ]
    points = [
        named(DOCUMENT, "dctcp", seed, f"{side}-{number:03d}", workload={"trace": str(table)})
        for number, table in enumerate(tables)
        for side, seed in SIDES.items()
    ]
    run_all(points, given.out, given.jobs)
    verdicts = {
        seeds: [differing(given.out, range(most * n, most * n + seeds)) for n in range(given["reports"])]
        for seeds in SEEDS_OF_A_REPORT
    }
    return Reports(given["reports"], verdicts)


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
    claim="A report that compares a scheme with itself says a difference in one of twenty cases.",
    minutes=5,
    runner=Script(measure, (JOBS,)),
    flows=2000,
    options=(option("--reports", "reports", type=at_least_one, default=30),),
    quick={"reports": 3, "flows": 400},
    claims=claims,
    numbers=lambda reports: {str(seeds): counts for seeds, counts in reports.verdicts.items()},
)
