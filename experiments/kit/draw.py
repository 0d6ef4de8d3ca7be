# SPDX-License-Identifier: Apache-2.0
"""Drawing: grids of panels, curves against load, intervals, distributions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from experiments.kit.runs import Difference, Results, Runs
from sluice.policy.schemes import SCHEMES

BROAD, NARROW = 4.0, 1.5
"""Widths of lines. A broad line is visible below a narrow one."""
Grid = list[list[Axes]]


@dataclass(frozen=True)
class Panel:
    """One figure of the runs, plotted against load."""

    title: str
    column: str
    unit: str
    factor: float
    """Factor from the column's unit to the axis's."""
    log: bool = False


@dataclass(frozen=True)
class Line:
    """How a scheme, or a variant of one, is drawn."""

    title: str
    colour: str
    style: str = "-"
    width: float = NARROW


def line_of(scheme: str) -> Line:
    definition = SCHEMES[scheme]
    return Line(definition.title, definition.colour)


def grid(
    rows: int, columns: int, *, width: float = 3.3, height: float = 3.0, **sharing: Any
) -> tuple[Figure, Grid]:
    """Return empty panels of `width` × `height` inches each; `sharing` as in plt.subplots."""
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **sharing)
    for panel in axes.flat:
        panel.grid(color="0.92")
        panel.set_axisbelow(True)
    return figure, [list(row) for row in axes]


def legend_below(figure: Figure, axes: Axes) -> None:
    """Draw one legend for all panels, with the entries of `axes`, in as many columns as the figure is wide."""
    handles, labels = axes.get_legend_handles_labels()
    for columns in range(len(labels), 0, -1):
        legend = figure.legend(
            handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=columns
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def curve(
    axes: Axes,
    places: Sequence[float],
    values: Sequence[Sequence[float]],
    line: Line,
    middle: Callable[[Sequence[float]], float] = fmean,
    marker: str = "o",
) -> None:
    """Draw the middle of the seeds' values at each place, and their range as a band."""
    low, high = ([end(seeds) for seeds in values] for end in (min, max))
    axes.fill_between(places, low, high, color=line.colour, alpha=0.2, linewidth=0)
    axes.plot(
        places,
        [middle(seeds) for seeds in values],
        line.style,
        color=line.colour,
        linewidth=line.width,
        marker=marker,
        markersize=2.5 + line.width,
        label=line.title,
    )


def against_load(
    panels: Sequence[Panel], lines: Mapping[str, Line], groups: Sequence[str] | None = None
) -> Callable[[Results], Figure]:
    """Return a drawing with a row of panels for each group of runs (None: all) and a line for each variant."""

    def draw(results: Results) -> Figure:
        names = list(results.groups) if groups is None else list(groups)
        figure, rows = grid(len(names), len(panels), height=3.0 + 0.5 / len(names))
        for row, name in zip(rows, names, strict=True):
            title = f"{name}: " if len(names) > 1 else ""
            for axes, panel in zip(row, panels, strict=True):
                _draw_panel(axes, results.groups[name], panel, lines)
                axes.set_title(f"{title}{panel.title}", fontsize="medium")
        legend_below(figure, rows[0][0])
        return figure

    return draw


def _draw_panel(axes: Axes, runs: Runs, panel: Panel, lines: Mapping[str, Line]) -> None:
    for variant, line in lines.items():
        curve(axes, runs.loads, runs.curve(panel.column, variant, panel.factor), line, median)
    axes.set(xlabel="load", ylabel=panel.unit)
    axes.set_xticks(runs.loads)
    if panel.log:
        log_scale(axes)
    else:
        axes.set_ylim(0, None)


def log_scale(axes: Axes) -> None:
    """Make an axis logarithmic. A range of less than a decade has labels, too."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())


def intervals(
    axes: Axes, places: Sequence[float], changes: Sequence[Difference], line: Line, marker: str = "o"
) -> None:
    """Draw differences in per cent, with whiskers over their confidence intervals."""
    means = [100 * change.mean for change in changes]
    below = [100 * (change.mean - change.low) for change in changes]
    above = [100 * (change.high - change.mean) for change in changes]
    axes.errorbar(
        places,
        means,
        [below, above],
        fmt=marker,
        color=line.colour,
        capsize=3,
        markersize=5,
        label=line.title,
        zorder=3,
    )


def distribution(axes: Axes, values: npt.NDArray[np.float64], line: Line) -> None:
    """Draw the share of the values that does not exceed each. nan counts as infinite."""
    ordered = np.sort(values[~np.isnan(values)])
    shares = np.arange(1, len(ordered) + 1) / max(len(values), 1)
    axes.plot(ordered, shares, color=line.colour, label=line.title, linewidth=line.width)
    axes.set(xscale="log", ylim=(0, 1))
