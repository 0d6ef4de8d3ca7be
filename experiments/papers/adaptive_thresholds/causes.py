# SPDX-License-Identifier: Apache-2.0
"""What the figures of Gutiérrez et al. depend on that their paper does not say: one thing changed at a time.

python -m experiments.papers.adaptive_thresholds.causes [--runs DIR] [--seeds 1 2 3]

Prints a Markdown table: the change from a static threshold of 1000 KB, and of 1 KB, to the one that
adaptation settles at, 10 KB."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from experiments.kit.paired import Difference, difference
from experiments.kit.pool import run_all
from experiments.papers.adaptive_thresholds.common import CAUSES, Runs, cause_points
from sluice.terminal import end_in_order

LOADS = (0.5, 0.9)
VARIANTS = ("static-1KB", "static-10KB", "static-1000KB")
COLUMNS = (
    ("short_mean", "1KB"),
    ("short_p99", "1KB"),
    ("short_mean", "1000KB"),
    ("short_p99", "1000KB"),
    ("long_mean", "1000KB"),
    ("long_p99", "1000KB"),
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("results/dyna-causes"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--flows", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one a core)")
    given = parser.parse_args(argv)
    end_in_order()
    runs = Runs(given.runs, given.flows, tuple(given.seeds), given.jobs)
    run_all(cause_points(runs, list(CAUSES), VARIANTS, LOADS), runs.folder, runs.jobs)
    print("| set-up | load |", *[f"{figure.replace('_', ' ')}, {start} |" for figure, start in COLUMNS])
    print("|---|---|" + "---|" * len(COLUMNS))
    print(*rows(runs), sep="\n")
    return 0


def rows(runs: Runs) -> Iterator[str]:
    """One line a set-up and load."""
    for cause in CAUSES:
        for load in LOADS:
            cells = [f"{change(runs, cause, start, load, figure).mean:+.0%}" for figure, start in COLUMNS]
            yield f"| {cause} | {load:g} | {' | '.join(cells)} |".replace("-", "−").replace("%", " %")


def change(runs: Runs, cause: str, start: str, load: float, figure: str) -> Difference:
    """Of the threshold at 10 KB over that at `start`."""
    settled, static = (
        runs.figures(f"{cause}-static-{threshold}", load)[figure] for threshold in ("10KB", start)
    )
    return difference(settled, static)


if __name__ == "__main__":
    sys.exit(main())
