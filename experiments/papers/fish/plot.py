# SPDX-License-Identifier: Apache-2.0
"""Differences from PIAS with their confidence intervals, by gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.kit.paired import Difference
from experiments.papers.fish.common import COLOURS, FIGURE_TITLES, FIGURES, GAPS, TITLES, Runs, Setup


def panels(rows: int, titles: Sequence[str], *, one_scale: bool) -> tuple[Figure, list[list[Axes]]]:
    """A grid with these titles above its columns; `one_scale`: the panels of a row have the same."""
    figure, axes = plt.subplots(
        rows,
        len(titles),
        figsize=(3.3 * len(titles), 0.5 + 2.7 * rows),
        layout="constrained",
        squeeze=False,
        sharey="row" if one_scale else False,
    )
    for panel in axes.flat:
        panel.axhline(0, color="0.5", linewidth=1, zorder=1)
        panel.grid(axis="y", color="0.92")
        panel.set_axisbelow(True)
    for panel, title in zip(axes[0], titles, strict=True):
        panel.set_title(title, fontsize="medium")
    return figure, [list(row) for row in axes]


def points(
    axes: Axes,
    places: Sequence[float],
    changes: Sequence[Difference],
    label: str,
    colour: str,
    marker: str = "o",
) -> None:
    """Per cent, with whiskers over the confidence interval."""
    means = [100 * change.mean for change in changes]
    below = [100 * (change.mean - change.low) for change in changes]
    above = [100 * (change.high - change.mean) for change in changes]
    axes.errorbar(
        places,
        means,
        [below, above],
        fmt=marker,
        color=colour,
        capsize=3,
        markersize=5,
        label=label,
        zorder=3,
    )


def differences(
    runs: Runs, setups: Mapping[str, Setup], paper: Mapping[tuple[str, str], float], path: Path
) -> None:
    """A row a set-up, a column a figure: FISH and its two halves over PIAS, and the paper's values."""
    figure, grid = panels(len(setups), [FIGURE_TITLES[name] for name in FIGURES], one_scale=False)
    for row, (title, setup) in zip(grid, setups.items(), strict=True):
        for panel, name in zip(row, FIGURES, strict=True):
            _panel(panel, runs, name, setup, paper)
        row[0].set_ylabel(f"{fill(title, 28)}\nFCT against PIAS (%)", fontsize="small")
    for panel in grid[-1]:
        panel.set_xlabel("mean time between starts")
    legend(figure, grid[0][0])
    save(figure, path)


def _panel(panel: Axes, runs: Runs, name: str, setup: Setup, paper: Mapping[tuple[str, str], float]) -> None:
    for nth, (variant, text) in enumerate(TITLES.items()):
        places = [place + 0.16 * (nth - 1) for place in range(len(GAPS))]
        changes = [runs.change(name, variant, setup, gap) for gap in GAPS]
        points(panel, places, changes, text, COLOURS[variant])
    known = [(place + 0.32, 100 * paper[name, gap]) for place, gap in enumerate(GAPS) if (name, gap) in paper]
    panel.plot(
        [place for place, _ in known], [value for _, value in known], "x", color="black", label="paper"
    )
    panel.set_xticks(range(len(GAPS)), [gap.replace("ms", " ms") for gap in GAPS])


def legend(figure: Figure, axes: Axes) -> None:
    """Below the panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=len(labels)
    )


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
