# SPDX-License-Identifier: Apache-2.0
"""Long flows, static against dynamic thresholds from 1000 KB, at the paper's rate on the simulator.

There are two sets of runs. In one, long flows have exactly the size of the threshold. In the
other, the threshold also counts the packets' headers, so the last 28 KB of a long flow are above
it. The headers make all the difference (docs/measurements/adaptive-thresholds.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from experiments.kit.draw import BROAD, Line, curve, grid
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.runners import Planned, ShortRuns, axes, one_group
from experiments.kit.runs import Results, Runs
from experiments.papers.adaptive_thresholds.common import (
    DYNAMIC_COLOUR,
    SCENARIO,
    SHARED,
    STATIC_COLOUR,
    cause_points,
    columns,
    runs_folder,
)
from experiments.papers.adaptive_thresholds.short_flows import changes, numbers, seeds_by_load

COUNTED = "headers-counted-"
SETS = {"": "1000 KB, payload counted", COUNTED: "1000 KB, headers counted"}
"""Prefix of the variants → its meaning."""
FIGURES = {"long_mean": "mean", "long_p99": "p99"}
PAPER = {"long_mean": "−27.1 … −46.7 %", "long_p99": "−24 … −45.8 %"}
NO_INCREASE, CLEARLY = 0.02, -0.02
EXPLANATION = (
    "a flow of exactly 1000 KB never leaves the top queue. With either threshold all long flows share "
    "one FIFO, and the short ones carry 3.8 % of the bytes. If headers count, a long flow's last packets "
    "go below the first 1000 KB of all others. Then they wait, and the paper's gain appears"
)


def plan(given: Given) -> Mapping[str, Planned]:
    counted = cause_points(given, ["headers-counted"], ["static-1000KB", "dynamic-1000KB"])
    return one_group(given, [*axes(given, SCENARIO), *counted], runs_folder(given))


def claims(results: Results) -> list[Claim]:
    made = [_lower(results.runs, prefix, figure) for prefix in SETS for figure in FIGURES]
    return made + [_no_increase(results.runs, start, f) for start in ("1KB", "10KB") for f in FIGURES]


def _lower(runs: Runs, prefix: str, figure: str) -> Claim:
    found = changes(runs, figure, "1000KB", prefix)
    holds = all(change.high < CLEARLY for load, change in found.by_load.items() if load >= 0.8)
    what = f"start {SETS[prefix]}: {FIGURES[figure]} of long flows"
    return Claim(what, PAPER[figure], str(found), holds, "" if prefix else EXPLANATION)


def _no_increase(runs: Runs, start: str, figure: str) -> Claim:
    found = changes(runs, figure, start)
    holds = all(change.mean <= NO_INCREASE for change in found.by_load.values())
    return Claim(f"start {start}: {FIGURES[figure]} of long flows", "no increase", str(found), holds)


def all_numbers(results: Results) -> dict[str, Any]:
    counted = {
        figure: {"1000KB, headers counted": changes(results.runs, figure, "1000KB", COUNTED).to_document()}
        for figure in FIGURES
    }
    return {**numbers(*FIGURES)(results), "headers counted": counted}


def draw(results: Results) -> Figure:
    """Draw static lines broadly: without headers counted, the dynamic ones cover them."""
    figure, [panels] = grid(1, len(FIGURES), width=4.4, height=3.8)
    loads = [100 * load for load in results.runs.loads]
    for axes_, (column, name) in zip(panels, FIGURES.items(), strict=True):
        for prefix, style in zip(SETS, ("-", "--"), strict=True):
            for line in (Line("static", STATIC_COLOUR, style, BROAD), Line("dynamic", DYNAMIC_COLOUR, style)):
                values = seeds_by_load(results.runs, f"{prefix}{line.title}-1000KB", column, 1 / 1000)
                label = f"{line.title}{', headers counted' if prefix else ''}"
                curve(axes_, loads, values, Line(label, line.colour, style, line.width))
        axes_.set_title(f"1000 KB flows, {name}", fontsize="medium")
        axes_.set(xlabel="load (%)", xticks=loads)
        axes_.set_ylim(bottom=0)
    panels[0].set_ylabel("FCT (ms)")
    panels[0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    name="dyna_fig8",
    claim="Adapting a threshold of 1000 KB lowers the long flows' FCT; other starts do not raise it.",
    figure="Gutiérrez et al., Fig. 8",
    about=__doc__,
    runner=ShortRuns(plan, columns),
    claims=claims,
    numbers=all_numbers,
    draw=draw,
    **SHARED,
)
