# SPDX-License-Identifier: Apache-2.0
"""The runs of fish_fig8 and fish_fig9 on the leaf-spine fabric: three capacities of a port's queues, three gaps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from experiments.kit.paired import Difference
from experiments.kit.pool import run_all
from experiments.papers.fish.common import FIGURE_TITLES, GAPS, Runs, Setup, planned
from experiments.papers.fish.plot import legend, panels, points, save
from sluice.runs.files import read_document
from sluice.terminal import end_in_order

SCENARIO = Path(__file__).with_name("fabric.toml")
CAPACITIES = (240, 480, 960)
"""Packets that all queues of a port hold together."""
SETUPS = {capacity: Setup(capacity) for capacity in CAPACITIES}
VARIANTS = ("pias", "fish-strict", "fish")
ORDERLY, ORDERLY_GAP = Setup(960, recovery="timeouts"), "1ms"
"""Where a flow that overtakes itself does no harm, and no packet is lost."""
SEEDS = 20
AGAINST_COLOURS = {"PIAS-240": "#222222", "PIAS of the same capacity": "#44aa99"}


def arguments(name: str, description: str | None, argv: Sequence[str] | None) -> tuple[Path, Runs]:
    """The command line of both: where the verdict goes, and the runs, made where they are missing."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results") / name)
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("results/fish-fabric"),
        help="bundles, shared by fish_fig8, fish_fig9",
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 1 on (default: %(default)s)")
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one a core)")
    given = parser.parse_args(argv)
    end_in_order()
    runs = Runs(given.runs, tuple(range(1, given.seeds + 1)))
    document = read_document(SCENARIO)
    orderly = planned(document, [ORDERLY], runs.seeds, VARIANTS, [ORDERLY_GAP])
    run_all(orderly + planned(document, list(SETUPS.values()), runs.seeds, VARIANTS), runs.folder, given.jobs)
    given.out.mkdir(parents=True, exist_ok=True)
    return given.out, runs


def over_pias_240(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """As the paper compares: FISH's capacity varies, PIAS keeps 240."""
    return runs.change(figure, variant, SETUPS[capacity], gap, SETUPS[240])


def over_equal(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """FISH alone: PIAS with the same capacity."""
    return runs.change(figure, variant, SETUPS[capacity], gap)


def plot(runs: Runs, figures: Sequence[str], path: Path) -> None:
    """A row a figure, a column a gap; FISH of each capacity over PIAS of 240 packets and over PIAS of its own."""
    drawn, grid = panels(len(figures), [f"Δt {gap.replace('ms', ' ms')}" for gap in GAPS], one_scale=True)
    for row, figure in zip(grid, figures, strict=True):
        for panel, gap in zip(row, GAPS, strict=True):
            _panel(panel, runs, figure, gap)
        row[0].set_ylabel(f"{FIGURE_TITLES[figure]}\nFISH against PIAS (%)")
    for panel in grid[-1]:
        panel.set_xlabel("capacity of FISH's ports (packets)")
    legend(drawn, grid[0][0])
    save(drawn, path)


def _panel(panel: Axes, runs: Runs, figure: str, gap: str) -> None:
    for shift, (name, change) in zip((-0.12, 0.12), CHANGES.items(), strict=True):
        places = [place + shift for place in range(len(CAPACITIES))]
        changes = [change(runs, figure, capacity, gap) for capacity in CAPACITIES]
        points(panel, places, changes, f"against {name}", AGAINST_COLOURS[name], "s" if shift < 0 else "o")
    panel.set_xticks(range(len(CAPACITIES)), [str(capacity) for capacity in CAPACITIES])


CHANGES = {"PIAS-240": over_pias_240, "PIAS of the same capacity": over_equal}


def numbers(runs: Runs, figures: Sequence[str]) -> dict[str, Any]:
    """Mean FCT in ms, and every difference, by gap and capacity."""
    return {
        gap: {
            str(capacity): {
                "fct_ms": {
                    variant: {
                        figure: sum(values) / len(values)
                        for figure, values in runs.figures(variant, SETUPS[capacity], gap).items()
                        if figure in figures
                    }
                    for variant in VARIANTS
                },
                **{
                    f"{variant} against {name}": {
                        figure: change(runs, figure, capacity, gap, variant).to_document()
                        for figure in figures
                    }
                    for variant in VARIANTS[1:]
                    for name, change in CHANGES.items()
                },
            }
            for capacity in CAPACITIES
        }
        for gap in GAPS
    }
