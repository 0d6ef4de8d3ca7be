# SPDX-License-Identifier: Apache-2.0
"""Experiments over schemes, loads and seeds on the simulator: the runs, ratios between schemes, curves against load."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from policy.errors import SluiceError
from policy.schemes import SCHEMES
from sluice.sweep import Point, points, run_points
from sluice.sweep.display import print_outcome, sweep_display
from sluice.sweep.table import Row, rows
from sluice.terminal import end_in_order


@dataclass(frozen=True)
class ByLoad:
    """One row a run: the columns of sluice.sweep.table, timeouts, and the part of the packets that was dropped."""

    rows: Sequence[Row]

    @property
    def loads(self) -> list[float]:
        return sorted({row["load"] for row in self.rows})

    @property
    def schemes(self) -> list[str]:
        """In the order of the sweep."""
        return list(dict.fromkeys(row["scheme"] for row in self.rows))

    def values(self, column: str, scheme: str, load: float) -> list[float]:
        """One a seed, in the order of the seeds."""
        found = [row for row in self.rows if (row["scheme"], row["load"]) == (scheme, load)]
        return [row[column] for row in sorted(found, key=lambda row: row["seed"])]

    def median(self, column: str, scheme: str, load: float) -> float:
        return median(self.values(column, scheme, load))

    def ratios(self, column: str, scheme: str, over: str, load: float) -> list[float]:
        """Of two schemes under the same traffic, seed by seed."""
        pairs = zip(self.values(column, scheme, load), self.values(column, over, load), strict=True)
        return [a / b for a, b in pairs]

    def ratio_by_load(self, column: str, scheme: str, over: str) -> dict[float, float]:
        """Medians over the seeds."""
        return {load: median(self.ratios(column, scheme, over, load)) for load in self.loads}

    @property
    def unfinished(self) -> int:
        return sum(row["unfinished"] for row in self.rows)

    def figures(self, columns: Mapping[str, str]) -> dict[str, Any]:
        """For a verdict's numbers: the columns, by name, of every scheme and load, one value a seed."""
        return {
            scheme: {
                f"{load:g}": {name: self.values(column, scheme, load) for name, column in columns.items()}
                for load in self.loads
            }
            for scheme in self.schemes
        }


def parser(
    name: str,
    description: str | None,
    *,
    flows: int,
    loads: Sequence[float],
    seeds: Sequence[int] = (1, 2, 3),
) -> argparse.ArgumentParser:
    """The command line of an experiment over loads."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=Path("results") / name)
    made.add_argument(
        "--seeds", type=int, nargs="+", default=list(seeds), help="one run each (default: %(default)s)"
    )
    made.add_argument("--loads", type=float, nargs="+", default=list(loads), help="default: %(default)s")
    made.add_argument("--flows", type=int, default=flows, help="per run (default: %(default)s)")
    made.add_argument("--jobs", type=int, help="runs at a time (default: one a core)")
    end_in_order()
    return made


def run_sweep(
    document: Mapping[str, Any],
    out: Path,
    arguments: argparse.Namespace,
    *,
    schemes: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    more: Callable[[Path], Row] = lambda bundle: {},
) -> ByLoad:
    """Run what is not there yet, show the table. `more`: further columns, from a bundle. SluiceError: a run failed."""
    found = points(
        document,
        schemes=schemes,
        loads=arguments.loads,
        seeds=arguments.seeds,
        settings={"workload.flows": arguments.flows, **(settings or {})},
    )
    with sweep_display() as report:
        outcome = run_points(found, out, jobs=arguments.jobs, report=report)
    if print_outcome(out, rows(out, outcome.finished), outcome):
        raise SluiceError(
            f"{len(outcome.failed)} of {len(found)} runs failed; their folders in {out} hold log.txt"
        )
    return read_sweep(out, found, more)


def read_sweep(out: Path, found: Sequence[Point], more: Callable[[Path], Row] = lambda bundle: {}) -> ByLoad:
    """What the finished runs in a folder came to."""
    table = zip(found, rows(out, found), strict=True)
    return ByLoad([row | _traffic(out / point.name) | more(out / point.name) for point, row in table])


def _traffic(bundle: Path) -> Row:
    meta = json.loads((bundle / "meta.json").read_text())
    return {
        "timeouts": meta["tcp"]["retransmission_timeouts"],
        "dropped": meta["packets_dropped"] / meta["packets_sent"],
    }


def over_loads(values: Mapping[float, float]) -> str:
    """Values by load, as a verdict shows them: 0.61, 0.58, 0.52 at loads 0.5, 0.6, 0.7."""
    shown = ", ".join(f"{value:.2f}" for value in values.values())
    return f"{shown} at load{'s' if len(values) > 1 else ''} {', '.join(f'{load:g}' for load in values)}"


@dataclass(frozen=True)
class Panel:
    """One figure of the runs against load."""

    title: str
    column: str
    unit: str
    factor: float
    """From the column's unit."""
    log: bool = False


@dataclass(frozen=True)
class Line:
    """How a scheme, or a variant of one, is drawn."""

    title: str
    colour: str
    style: str = "-"


def line_of(scheme: str) -> Line:
    definition = SCHEMES[scheme]
    return Line(definition.title, definition.colour)


def draw(axes: Axes, measured: ByLoad, panel: Panel, lines: Mapping[str, Line]) -> None:
    """Medians over the seeds, and their range."""
    for scheme, line in lines.items():
        columns = [sorted(measured.values(panel.column, scheme, load)) for load in measured.loads]
        low, middle, high = zip(*((v[0], median(v), v[-1]) for v in columns), strict=True)
        scaled = [[value * panel.factor for value in values] for values in (low, middle, high)]
        axes.fill_between(measured.loads, scaled[0], scaled[2], color=line.colour, alpha=0.18, linewidth=0)
        axes.plot(
            measured.loads,
            scaled[1],
            line.style,
            color=line.colour,
            marker="o",
            markersize=4,
            linewidth=1.5,
            label=line.title,
        )
    axes.set(title=panel.title, xlabel="load", ylabel=panel.unit)
    axes.set_xticks(measured.loads)
    _scale(axes, log=panel.log)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def _scale(axes: Axes, *, log: bool) -> None:
    if not log:
        axes.set_ylim(0, None)
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # a range of less than a decade has labels, too
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())


def plot(
    grid: Sequence[tuple[str, ByLoad]], panels: Sequence[Panel], lines: Mapping[str, Line], path: Path
) -> None:
    """A row of panels for each workload, under its name, with one legend below."""
    figure, axes = plt.subplots(
        len(grid),
        len(panels),
        figsize=(3.3 * len(panels), 3.0 * len(grid) + 0.5),
        layout="constrained",
        squeeze=False,
    )
    for row, (name, measured) in zip(axes, grid, strict=True):
        for one, panel in zip(row, panels, strict=True):
            draw(one, measured, panel, lines)
            one.set_title(f"{name}: {panel.title}" if name else panel.title, fontsize="medium")
    handles, titles = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=len(lines), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
