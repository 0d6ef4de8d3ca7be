# SPDX-License-Identifier: Apache-2.0
"""FISH against PIAS on one link, 100 flows: many seeds, FISH's two changes alone, five set-ups."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Line, intervals, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.runners import Planned, ShortRuns, one_group
from experiments.kit.runs import Results, Runs, lower, signed, within
from experiments.papers.fish import common

SCENARIO = Path(__file__).with_name("single.toml")
SETUPS = {
    "buffer 240, first window 70": common.Setup(),
    "buffer 240, first window 10": common.Setup(window=10),
    "buffer 960, first window 70": common.Setup(capacity=960),
    "buffer 240, first window 70, timeouts only": common.Setup(recovery="timeouts"),
    "buffer 240, first window 70, Linux's recovery": common.Setup(recovery="linux"),
}
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
"""The paper's relative differences. Those of medium and large flows are from tables 1 and 2."""
CLOSE = 0.03
"""Limit for the means of medium and large flows. The paper has 0.6 % in its one run of each."""
SIZES_KB = (0, 10, 20, 40, 60, 100)
"""Bounds of the small flows' sizes, for the table by size."""
LINES = {
    "pias-shares": Line("shares alone", "#bbbbbb"),
    "fish-strict": Line("flow queues alone", "#4477aa"),
    "fish": Line("FISH: both", line_of("fish").colour),
}
EXPLANATION = (
    "a FIFO serves a flow by its window: a first window of any size passes in the time of the queue. "
    "Taking turns serves every flow alike, a packet a round. With many flows in the first priority (up to "
    "1.3 MB of each), the longer of the small ones take longer. Turns win if the large windows of others "
    "wait in the queue, because all start at once and the buffer has room"
)


def plan(given: Given) -> Mapping[str, Planned]:
    return one_group(given, common.points(given, SCENARIO, list(SETUPS.values())))


def claims(results: Results) -> list[Claim]:
    verdict = []
    for name, setup in SETUPS.items():
        for (figure, gap), papers_change in PAPER.items():
            what = f"{name}, Δt {gap}: {figure.replace('_', ' ')} against PIAS"
            paper = signed(f"{papers_change:+.2%}")
            ours = common.change(results.runs, figure, "fish", setup, gap)
            if figure.startswith("small"):
                verdict.append(lower(what, paper, ours, EXPLANATION))
            else:
                verdict.append(within(what, paper, ours, CLOSE))
    return verdict


def numbers(results: Results) -> dict[str, Any]:
    return {
        name: {gap: _numbers(results.runs, setup, gap) for gap in common.GAPS}
        for name, setup in SETUPS.items()
    }


def _numbers(runs: Runs, setup: common.Setup, gap: str) -> dict[str, Any]:
    return {
        "fct_ms": {
            variant: common.fct_ms(runs, list(common.FIGURES), variant, setup, gap)
            for variant in common.VARIANTS
        },
        "changes": {
            variant: {
                figure: common.change(runs, figure, variant, setup, gap).to_document()
                for figure in common.FIGURES
            }
            for variant in LINES
        },
        "small_by_size_ms": {variant: by_size(runs, variant, setup, gap) for variant in common.VARIANTS},
    }


def by_size(runs: Runs, variant: str, setup: common.Setup, gap: str) -> list[float]:
    """Return the mean FCT in ms of small flows by size, in the steps of SIZES_KB, over all seeds."""
    flows = [run.flows() for run in runs.at(common.label(variant, setup, gap))]
    sizes_kb = np.concatenate([of_run.bytes for of_run in flows]) / 1000
    times_ms = np.concatenate([of_run.fct_us for of_run in flows]) / 1000
    return [float(times_ms[(sizes_kb > low) & (sizes_kb <= high)].mean()) for low, high in pairwise(SIZES_KB)]


def draw(results: Results) -> Figure:
    """Draw a row for each set-up and a column for each figure: FISH, its two changes, and the
    paper's values."""
    picture, rows = common.panels(len(SETUPS), list(common.FIGURES.values()), one_scale=False)
    for row, (title, setup) in zip(rows, SETUPS.items(), strict=True):
        for axes, figure in zip(row, common.FIGURES, strict=True):
            for nth, (variant, line) in enumerate(LINES.items()):
                places = [place + 0.16 * (nth - 1) for place in range(len(common.GAPS))]
                changes = [common.change(results.runs, figure, variant, setup, gap) for gap in common.GAPS]
                intervals(axes, places, changes, line)
            paper = [100 * PAPER.get((figure, gap), np.nan) for gap in common.GAPS]
            axes.plot(
                [place + 0.32 for place in range(len(common.GAPS))], paper, "x", color="black", label="paper"
            )
            axes.set_xticks(range(len(common.GAPS)), [gap.replace("ms", " ms") for gap in common.GAPS])
        row[0].set_ylabel(f"{fill(title, 28)}\nFCT against PIAS (%)", fontsize="small")
    for axes in rows[-1]:
        axes.set_xlabel("mean time between starts")
    legend_below(picture, rows[0][0])
    return picture


EXPERIMENT = Experiment(
    name="fish_fig6",
    claim="On one link FISH gets small flows done sooner than PIAS, and others as soon.",
    figure="Zhang and Hu, Fig. 6, tables 1 and 2",
    minutes=4,
    runner=ShortRuns(plan, common.columns),
    seeds=50,
    quick={"seeds": 10},
    claims=claims,
    numbers=numbers,
    draw=draw,
)
