# SPDX-License-Identifier: Apache-2.0
"""The runs of fish_fig8 and fish_fig9 on the leaf-spine fabric: three capacities, three gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.kit.draw import Line, intervals, legend_below
from experiments.kit.experiment import Given, option
from experiments.kit.runners import Planned, ShortRuns, one_group
from experiments.kit.runs import Difference, Results, Runs
from experiments.papers.fish.common import FIGURES, GAPS, Setup, change, columns, fct_ms, panels, points
from sluice.commands.arguments import folder

SCENARIO = Path(__file__).with_name("fabric.toml")
CAPACITIES = (240, 480, 960)
"""Packets that all queues of a port hold together."""
SETUPS = {capacity: Setup(capacity) for capacity in CAPACITIES}
VARIANTS = ("pias", "fish-strict", "fish")
ORDERLY, ORDERLY_GAP = Setup(960, recovery="timeouts"), "1ms"
"""In this set-up no packet is lost, and reordering within a flow has no effect."""


def plan(given: Given) -> Mapping[str, Planned]:
    orderly = points(given, SCENARIO, [ORDERLY], VARIANTS, [ORDERLY_GAP])
    return one_group(given, orderly + points(given, SCENARIO, list(SETUPS.values()), VARIANTS), given["runs"])


SHARED: Mapping[str, Any] = {
    "minutes": 8,
    "runner": ShortRuns(plan, columns),
    "seeds": 20,
    "quick": {"seeds": 3},
    "options": (
        option(
            "--runs",
            type=folder,
            default=Path("results/fish-fabric"),
            help="folder of the bundles, which fish_fig8 and fish_fig9 share (default: %(default)s)",
        ),
    ),
}
"""Options of both figures."""


def over_pias_240(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """Return the paper's comparison: FISH's capacity varies, PIAS keeps 240."""
    return change(runs, figure, variant, SETUPS[capacity], gap, SETUPS[240])


def over_equal(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """Return the difference to PIAS with the same capacity."""
    return change(runs, figure, variant, SETUPS[capacity], gap)


CHANGES = {"PIAS-240": over_pias_240, "PIAS of the same capacity": over_equal}
MARKS = {"PIAS-240": (-0.12, "#222222", "s"), "PIAS of the same capacity": (0.12, "#44aa99", "o")}
"""(place next to the tick, colour, marker)"""


def draw(*figures: str) -> Callable[[Results], Figure]:
    """Return a drawing with a row for each figure and a column for each gap: FISH of each capacity
    over both PIAS."""

    def drawn(results: Results) -> Figure:
        titles = [f"Δt {gap.replace('ms', ' ms')}" for gap in GAPS]
        picture, rows = panels(len(figures), titles, one_scale=True)
        for row, figure in zip(rows, figures, strict=True):
            for axes, gap in zip(row, GAPS, strict=True):
                for name, (shift, colour, marker) in MARKS.items():
                    places = [place + shift for place in range(len(CAPACITIES))]
                    found = [CHANGES[name](results.runs, figure, capacity, gap) for capacity in CAPACITIES]
                    intervals(axes, places, found, Line(f"against {name}", colour), marker)
                axes.set_xticks(range(len(CAPACITIES)), list(map(str, CAPACITIES)))
            row[0].set_ylabel(f"{FIGURES[figure]}\nFISH against PIAS (%)")
        for axes in rows[-1]:
            axes.set_xlabel("capacity of FISH's ports (packets)")
        legend_below(picture, rows[0][0])
        return picture

    return drawn


def numbers(*figures: str) -> Callable[[Results], dict[str, Any]]:
    """Return mean FCTs in milliseconds and every difference, by gap and capacity."""

    def found(results: Results) -> dict[str, Any]:
        return {
            gap: {str(capacity): _numbers(results.runs, figures, capacity, gap) for capacity in CAPACITIES}
            for gap in GAPS
        }

    return found


def _numbers(runs: Runs, figures: tuple[str, ...], capacity: int, gap: str) -> dict[str, Any]:
    means = {variant: fct_ms(runs, figures, variant, SETUPS[capacity], gap) for variant in VARIANTS}
    differences = {
        f"{variant} against {name}": {
            figure: over(runs, figure, capacity, gap, variant).to_document() for figure in figures
        }
        for variant in VARIANTS[1:]
        for name, over in CHANGES.items()
    }
    return {"fct_ms": means, **differences}
