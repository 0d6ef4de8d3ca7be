# SPDX-License-Identifier: Apache-2.0
"""The report's plots, and how the thresholds of a run's ports moved, from its ports.parquet.

Each panel is a separate picture, so that a narrow screen can show them below one another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from sluice.policy.figures.metrics import cdf
from sluice.report.numbers import (
    Estimate,
    SizeBins,
    factor_text,
    loads_of,
    miss_ratio,
    of_class,
    percent,
    ratio,
    size_text,
    slowdown_by_size,
    time_text,
)
from sluice.report.panel import MUTED, Drawing, Panel, logarithmic, panel
from sluice.report.runs import Flows, Run, Variant

DASHES: tuple[tuple[float, ...] | None, ...] = (None, (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (9, 3))
"""For the first, second … variant of one scheme. None is a solid line."""

WIDE_RATIO = 4.0
"""Above this ratio of largest to smallest value, the axis is logarithmic: otherwise values near 1
would form one line."""
MAX_TICKS = 8
CDF_POINTS = 240


def _line(variant: Variant) -> dict[str, Any]:
    dashes = DASHES[variant.style % len(DASHES)]
    return {
        "color": variant.colour,
        "label": variant.label,
        **({"dashes": dashes} if dashes else {"linestyle": "-"}),
    }


def distributions(
    flows: Mapping[str, Flows], variants: Sequence[Variant], classes: Sequence[str]
) -> list[Panel]:
    """Draw FCT distributions by size class. `flows` is by the label of a variant."""
    panels: list[Panel] = []
    for group in classes:
        curves = {v: flows[v.label].fct_us[flows[v.label].size_class == group] for v in variants}
        curves = {variant: values for variant, values in curves.items() if len(values)}
        with panel(f"{group} flows", panels, "fct_us", "share", x_format="time", steps=True) as drawing:
            for variant, values in curves.items():
                x, share = cdf(values, CDF_POINTS)
                drawing.axes.step(np.append(x[0], x), np.append(0, share), where="post", **_line(variant))
                drawing.add(variant.label, variant.colour, x.tolist(), share.tolist())
            drawing.axes.set(xlabel="FCT", ylabel="share of flows", ylim=(0, 1.01))
            logarithmic(drawing.axes, "x", time_text)
    return panels


def slowdowns(flows: Mapping[str, Flows], variants: Sequence[Variant]) -> list[Panel]:
    """Draw mean and 99th percentile of the slowdown by flow size."""
    bins = {variant: slowdown_by_size(flows[variant.label]) for variant in variants}
    panels: list[Panel] = []
    for title, name in (("mean slowdown", "mean"), ("99th percentile of the slowdown", "p99")):
        if not any(np.isfinite(getattr(found, name)).any() for found in bins.values()):
            continue
        with panel(title, panels, "size_bytes", "slowdown", x_format="size") as drawing:
            for variant, found in bins.items():
                _size_curve(drawing, variant, found, name)
            axes = drawing.axes
            axes.set(xlabel="flow size", ylabel="FCT ÷ FCT alone")
            logarithmic(axes, "x", size_text)
            axes.set_ylim(bottom=1, top=1.2 * axes.get_ylim()[1])
            logarithmic(axes, "y", factor_text)
    return panels


def _size_curve(drawing: Drawing, variant: Variant, bins: SizeBins, name: str) -> None:
    values = getattr(bins, name)
    drawn = np.isfinite(values)
    drawing.axes.plot(bins.size_bytes[drawn], values[drawn], marker="o", **_line(variant))
    drawing.add(variant.label, variant.colour, bins.size_bytes[drawn].tolist(), values[drawn].tolist())


@dataclass(frozen=True)
class LoadFigure:
    """One figure that is plotted against the load."""

    title: str
    group: str
    statistic: str

    def of(self, runs: Sequence[Run]) -> Estimate | None:
        return of_class(runs, "fct_us", self.group, self.statistic)


def load_figures(classes: Sequence[str]) -> list[LoadFigure]:
    """Return mean and p99 of the first class, and the means of the other classes and of all flows."""
    if not classes:
        return []
    first = classes[0]
    figures = [
        LoadFigure(f"{first} flows, mean", first, "mean"),
        LoadFigure(f"{first} flows, p99", first, "p99"),
    ]
    figures += [LoadFigure(f"{group} flows, mean", group, "mean") for group in classes[1:]]
    return [*figures, LoadFigure("all flows, mean", "all", "mean")]


def against_load(variants: Sequence[Variant], baseline: Variant, classes: Sequence[str]) -> list[Panel]:
    """Draw the FCT as a ratio to the baseline's at the same load."""
    panels: list[Panel] = []
    for figure in load_figures(classes):
        with panel(figure.title, panels, "load", "fct_ratio") as drawing:
            axes = drawing.axes
            for variant in variants:
                _load_curve(
                    drawing,
                    variant,
                    {
                        load: ratio(variant.at(load), baseline.at(load), figure.of)
                        for load in loads_of([variant])
                        if load is not None and baseline.at(load)
                    },
                )
            axes.set(xlabel="load", ylabel=f"FCT ÷ {baseline.label}")
            axes.set_xticks(_some([load for load in loads_of(variants) if load is not None]))
            if axes.get_ylim()[1] > WIDE_RATIO:
                logarithmic(axes, "y", factor_text)
            else:
                axes.set_ylim(bottom=0)
    return panels


def misses_against_load(variants: Sequence[Variant]) -> list[Panel]:
    """Draw the share of missed deadlines."""
    panels: list[Panel] = []
    with panel("deadlines missed", panels, "load", "share_missed") as drawing:
        axes = drawing.axes
        for variant in variants:
            shares = {load: miss_ratio(variant.at(load)) for load in loads_of([variant]) if load is not None}
            _load_curve(drawing, variant, shares)
        axes.set(xlabel="load", ylabel="share missed")
        axes.set_xticks(_some([load for load in loads_of(variants) if load is not None]))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    return panels


def _load_curve(drawing: Drawing, variant: Variant, values: Mapping[float, Estimate | None]) -> None:
    known = {load: value for load, value in values.items() if value is not None}
    spread = [value.deviation or 0.0 for value in known.values()]
    means = [value.mean for value in known.values()]
    style = {"marker": "o", "capsize": 2, "elinewidth": 0.9, **_line(variant)}
    drawing.axes.errorbar(list(known), means, yerr=spread, **style)
    drawing.add(variant.label, variant.colour, list(known), means)


def misses(variants: Sequence[Variant], load: float | None) -> list[Panel]:
    """Draw the share of missed deadlines at one load, with a bar for each variant."""
    shares = {variant: miss_ratio(variant.at(load)) for variant in variants}
    known = {variant: share for variant, share in shares.items() if share is not None}
    panels: list[Panel] = []
    height = 0.45 + 0.32 * len(known)
    with panel("deadlines missed", panels, "variant", "share_missed", height) as drawing:
        for row, (variant, share) in enumerate(known.items()):
            _miss_bar(drawing.axes, row, variant, share)
            drawing.add(variant.label, variant.colour, [row], [share.mean])
        _bars_alone(drawing.axes, list(known.values()), height)
    return panels


def _miss_bar(axes: Axes, row: int, variant: Variant, share: Estimate) -> None:
    spread = share.deviation or 0.0
    axes.barh(row, share.mean, height=0.6, color=variant.colour, xerr=spread, ecolor=MUTED)
    text, right_of_it = f"{variant.label}: {percent(share)}", (share.mean + spread, row)
    axes.annotate(text, right_of_it, (5, 0), textcoords="offset points", va="center")


def _bars_alone(axes: Axes, shares: Sequence[Estimate], height: float) -> None:
    """Remove what a plot of labelled bars does not need."""
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.xaxis.set_major_locator(NullLocator())
    axes.yaxis.set_major_locator(NullLocator())
    longest = max((share.mean + (share.deviation or 0) for share in shares), default=0)
    axes.set_xlim(0, max(longest, 1e-6) * 1.9)  # room for the label right of the longest bar
    axes.figure.subplots_adjust(left=0.01, bottom=0.04, top=1 - 0.35 / height)


def _some(loads: Sequence[float]) -> Sequence[float]:
    """Return as many of the loads as fit below an axis."""
    return loads[:: math.ceil(len(loads) / MAX_TICKS)]


# ── Thresholds ───────────────────────────────────────────────────────────────────────────────────────


Floats = npt.NDArray[np.float64]

TIMES = 200
"""The most points of time of a plot."""
LOW_PERCENT, HIGH_PERCENT = 10, 90
"""The band around the median port."""


@dataclass(frozen=True)
class Moves:
    """The thresholds of all ports over time, shape (times, thresholds) each."""

    at_s: Floats
    """Seconds since the first one."""
    low: Floats
    median: Floats
    high: Floats
    ports: int


def threshold_moves(run: Run) -> Moves | None:
    """Return the moves of a run's thresholds; None if they did not move, or if the bundle does not have them."""
    by_port = _by_port(run)
    if all(len(values) < 2 or (values == values[0]).all() for _, values in by_port):
        return None
    at_s = np.unique(np.concatenate([times for times, _ in by_port]))
    if len(at_s) > TIMES:
        at_s = np.linspace(at_s[0], at_s[-1], TIMES)
    held = np.stack([_held(times, values, at_s) for times, values in by_port])
    low, median, high = np.nanpercentile(held, [LOW_PERCENT, 50, HIGH_PERCENT], axis=0)
    return Moves(at_s - at_s[0], low, median, high, len(by_port))


def _by_port(run: Run) -> list[tuple[Floats, Floats]]:
    """Return times and thresholds of each port, in the order of time. Ports with fewer thresholds are left out."""
    path = run.folder / "ports.parquet"
    if not path.exists():
        return []
    filters: list[tuple[str, str, Any]] = [("kind", "=", "thresholds")]
    filters += [] if run.version is None else [("policy_version", "=", run.version)]
    rows: dict[str, list[tuple[float, list[int]]]] = {}
    for row in pq.read_table(path, filters=filters).to_pylist():
        rows.setdefault(row["port"], []).append((row["at"], row["thresholds_bytes"]))
    most = max((len(values) for changes in rows.values() for _, values in changes), default=0)
    found = []
    for changes in rows.values():
        kept = sorted((at, values) for at, values in changes if len(values) == most and most)
        if kept:
            times, values = zip(*kept, strict=True)
            found.append((np.asarray(times, float), np.asarray(values, float)))
    return found


def _held(times: Floats, values: Floats, at_s: Floats) -> Floats:
    """Return a port's thresholds at these times: the newest ones, NaN before the first."""
    newest = np.searchsorted(times, at_s, side="right") - 1
    return np.where((newest >= 0)[:, None], values[np.maximum(newest, 0)], np.nan)


def threshold_panels(variants: list[tuple[Variant, Run]]) -> list[Panel]:
    """Draw the thresholds of each run that moved any."""
    panels: list[Panel] = []
    for variant, run in variants:
        moves = threshold_moves(run)
        if moves is not None:
            _draw(variant, moves, panels)
    return panels


def _draw(variant: Variant, moves: Moves, panels: list[Panel]) -> None:
    formats: dict[str, Any] = {"y_format": "size", "steps": True}
    with panel(f"thresholds, {variant.label}", panels, "seconds", "threshold_bytes", **formats) as drawing:
        axes, colour = drawing.axes, variant.colour
        for number in range(moves.median.shape[1]):
            low, median, high = (part[:, number] for part in (moves.low, moves.median, moves.high))
            axes.fill_between(moves.at_s, low, high, color=colour, alpha=0.15, linewidth=0, step="post")
            axes.step(moves.at_s, median, where="post", color=colour)
            drawing.add(f"threshold {number + 1}", colour, moves.at_s.tolist(), median.tolist())
        axes.set(xlabel="time, s", ylabel="threshold")
        logarithmic(axes, "y", size_text)
