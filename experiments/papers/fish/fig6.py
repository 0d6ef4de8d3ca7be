# SPDX-License-Identifier: Apache-2.0
"""FISH against PIAS on one link, 100 flows (Zhang and Hu, Fig. 6, tables 1 and 2): many seeds, and FISH's
two changes apart.

python -m experiments fish_fig6 [--out DIR] [--seeds N]
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.paired import signed
from experiments.kit.pool import run_all
from experiments.kit.verdict import Claim, conclude
from experiments.papers.fish.common import FIGURES, GAPS, VARIANTS, Runs, Setup, planned
from experiments.papers.fish.plot import differences
from sluice.runs.files import read_document
from sluice.terminal import end_in_order

SCENARIO = Path(__file__).with_name("single.toml")
SETUPS = {
    "buffer 240, first window 70": Setup(),
    "buffer 240, first window 10": Setup(window=10),
    "buffer 960, first window 70": Setup(capacity=960),
    "buffer 240, first window 70, timeouts only": Setup(recovery="timeouts"),
    "buffer 240, first window 70, Linux's recovery": Setup(recovery="linux"),
}
SEEDS = 50
PAPER = {
    ("small_mean", "0.1ms"): -0.0264,
    ("small_mean", "0.01ms"): -0.0323,
    ("small_p99", "0.1ms"): -0.1992,
    ("small_p99", "0.01ms"): -0.022,
    ("medium_mean", "1ms"): 11.157 / 11.133 - 1,
    ("medium_mean", "0.1ms"): 38.133 / 37.907 - 1,
    ("medium_mean", "0.01ms"): 43.534 / 43.296 - 1,
    ("large_mean", "1ms"): 79.450 / 79.672 - 1,
    ("large_mean", "0.1ms"): 123.287 / 122.966 - 1,
    ("large_mean", "0.01ms"): 128.198 / 128.476 - 1,
}
CLOSE = 0.03
"""Of medium and large flows' means; the paper has 0.6 % in its one run of each."""
SIZES_KB = (0, 10, 20, 40, 60, 100)
"""Bounds of the small flows' sizes in the table by size."""

EXPLANATION = (
    "a FIFO serves a flow by its window: a first window passes in the time that the queue takes, whatever"
    " it holds. Taking turns serves every flow alike, a packet a round; with many flows in the first "
    "priority (up to 1.3 MB of each) the longer of the small ones take longer. Turns win where others' "
    "large windows stand in the queue: all starts at once, room for them"
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/fish_fig6"))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 1 on (default: %(default)s)")
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one a core)")
    given = parser.parse_args(argv)
    end_in_order()
    runs = Runs(given.out, tuple(range(1, given.seeds + 1)))
    run_all(planned(read_document(SCENARIO), list(SETUPS.values()), runs.seeds), runs.folder, given.jobs)
    differences(runs, SETUPS, PAPER, given.out / "fish_fig6.png")
    claims = [claim for name, setup in SETUPS.items() for claim in _claims(runs, name, setup)]
    return conclude(given.out, "fish_fig6", claims, _numbers(runs))


def _claims(runs: Runs, name: str, setup: Setup) -> list[Claim]:
    claims = []
    for (figure, gap), paper in PAPER.items():
        change = runs.change(figure, "fish", setup, gap)
        small = figure.startswith("small")
        holds = change.lower if small else abs(change.mean) <= CLOSE
        what = f"{name}, Δt {gap}: {figure.replace('_', ' ')} against PIAS"
        claims.append(Claim(what, signed(f"{paper:+.2%}"), str(change), holds, EXPLANATION if small else ""))
    return claims


def _numbers(runs: Runs) -> dict[str, Any]:
    return {
        name: {
            gap: {
                "fct_ms": {
                    variant: {
                        figure: _mean(values) for figure, values in runs.figures(variant, setup, gap).items()
                    }
                    for variant in VARIANTS
                },
                "changes": {
                    variant: {
                        figure: runs.change(figure, variant, setup, gap).to_document() for figure in FIGURES
                    }
                    for variant in VARIANTS
                    if variant != "pias"
                },
                "small_by_size_ms": {variant: by_size(runs, variant, setup, gap) for variant in VARIANTS},
            }
            for gap in GAPS
        }
        for name, setup in SETUPS.items()
    }


def _mean(values: list[float]) -> float:
    return float(np.nanmean(values))


def by_size(runs: Runs, variant: str, setup: Setup, gap: str) -> list[float]:
    """Mean FCT in ms of small flows by their size, in the steps of SIZES_KB; all seeds together."""
    flows = runs.flows(variant, setup, gap)
    sizes = np.concatenate([run.bytes for run in flows]) / 1000
    fct_ms = np.concatenate([run.fct_us for run in flows]) / 1000
    steps = pairwise(SIZES_KB)
    return [float(fct_ms[(sizes > low) & (sizes <= high)].mean()) for low, high in steps]


if __name__ == "__main__":
    sys.exit(main())
