# SPDX-License-Identifier: Apache-2.0
"""How the thresholds of a run's ports moved, from its ports.parquet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sluice.report.numbers import size_text
from sluice.report.panel import Panel, logarithmic, panel
from sluice.report.runs import Run, Variant

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
