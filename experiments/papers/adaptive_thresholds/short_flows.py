# SPDX-License-Identifier: Apache-2.0
"""Static against dynamic thresholds. Figures 6 and 7 are one figure with two statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import BROAD, Line, curve, grid
from experiments.kit.experiment import Claim
from experiments.kit.runs import Changes, Results, Runs
from experiments.papers.adaptive_thresholds.common import DYNAMIC_COLOUR, STARTS, STATIC_COLOUR, settled

MISMATCHED = ("1KB", "1000KB")
SAME = 0.02
"""Two means with a smaller relative difference count as equal."""
OPTIMUM = Line("static, 10 KB (the optimum)", "0.75", width=BROAD)


def changes(runs: Runs, figure: str, start: str, cause: str = "") -> Changes:
    """Return the change from the static to the dynamic runs of one start, by load."""
    return runs.changes(figure, f"{cause}dynamic-{start}", f"{cause}static-{start}")


def same(runs: Runs, figure: str) -> Claim:
    found = changes(runs, figure, "10KB")
    return Claim("start 10 KB: dynamic against static", "close", str(found), found.within(SAME))


def numbers(*figures: str) -> Callable[[Results], dict[str, Any]]:
    """Return microseconds by variant and load, one value for each seed, and changes by start."""

    def found(results: Results) -> dict[str, Any]:
        runs = results.runs
        values = Runs([run for run in runs.runs if run.variant.startswith(("static", "dynamic"))])
        return {
            "fct_us": values.by_load({name: name for name in figures}),
            "changes": {name: {start: _both(runs, name, start) for start in STARTS} for name in figures},
        }

    return found


def _both(runs: Runs, figure: str, start: str) -> dict[str, Any]:
    return {
        "whole run": changes(runs, figure, start).to_document(),
        "after the first adjustment": changes(runs, settled(figure), start).to_document(),
    }


def draw(figure: str, ylabel: str, *, after: bool) -> Callable[[Results], Figure]:
    """Return a drawing with a panel for each start. `after` adds the flows after the first adjustment."""

    def drawn(results: Results) -> Figure:
        picture, [panels] = grid(1, len(MISMATCHED), width=4.4, height=3.8, sharey=True)
        for axes, start in zip(panels, MISMATCHED, strict=True):
            size, loads = start.replace("KB", " KB"), [100 * load for load in results.runs.loads]
            lines = [
                ("static-10KB", figure, OPTIMUM),
                (f"static-{start}", figure, Line(f"static, {size}", STATIC_COLOUR)),
                (f"dynamic-{start}", figure, Line(f"dynamic from {size}", DYNAMIC_COLOUR)),
            ]
            again = Line("… after the first adjustment", DYNAMIC_COLOUR, "--")
            lines += [(f"dynamic-{start}", settled(figure), again)] if after else []
            for variant, column, line in lines:
                curve(axes, loads, seeds_by_load(results.runs, variant, column), line)
            axes.set_title(f"start {size}", fontsize="medium")
            axes.set(xlabel="load (%)", xticks=loads)
            axes.legend(frameon=False, fontsize="small", loc="upper left")
        panels[0].set_ylabel(ylabel)
        slowest = [seeds_by_load(results.runs, f"static-{start}", figure) for start in MISMATCHED]
        panels[0].set_ylim(0, 1.35 * float(np.max(slowest)))
        return picture

    return drawn


def seeds_by_load(runs: Runs, variant: str, column: str, factor: float = 1) -> Sequence[list[float]]:
    """Return the seeds' values for each load."""
    return [[factor * value for value in runs.values(column, variant, load)] for load in runs.loads]
