# SPDX-License-Identifier: Apache-2.0
"""Common parts of fish_fig6, fish_fig8 and fish_fig9: variants, set-ups, and the figures of a run.

FISH is PIAS with two changes: a queue for each flow inside a priority, and a share of the link for
each priority. `VARIANTS` has each change alone, so that their effects can be distinguished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Grid, grid
from experiments.kit.experiment import Given
from experiments.kit.flows import means, percentile, read_flow_columns
from experiments.kit.runners import axes
from experiments.kit.runs import Difference, Runs
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.records import SIZE_CLASSES
from sluice.runs.files import read_document
from sluice.sweep.points import Point

GAPS = ("1ms", "0.1ms", "0.01ms")
"""Mean time between two flows' starts."""
PACKET_KB = 1.5
FISH_SHARES = [1 - 7 * SCHEMES["fish"].least_share, *[SCHEMES["fish"].least_share] * 7]

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "pias": {"name": "pias"},
    "pias-shares": {"name": "pias", "shares": FISH_SHARES},
    "fish-strict": {"name": "fish", "shares": []},
    "fish": {"name": "fish"},
}

RECOVERIES: Mapping[str, Mapping[str, Any]] = {
    "ns2": {},
    "timeouts": {"simulator.duplicate_threshold": 0},
    "linux": {"simulator.recovery": "linux"},
}
"""Name → how losses are detected and repaired: as in ns-2, as in PIAS's scripts, or as in Linux. In
PIAS's scripts three later packets do not yet mean a loss."""

FIGURES = {
    "small_mean": "small flows, mean",
    "small_p99": "small flows, p99",
    "medium_mean": "medium flows, mean",
    "large_mean": "large flows, mean",
}
"""Columns in milliseconds → their titles."""


@dataclass(frozen=True)
class Setup:
    """What the paper leaves open or varies: buffer and first window in packets, and recovery."""

    capacity: int = 240
    window: int = 70
    recovery: str = "ns2"
    """A key of RECOVERIES."""

    @property
    def name(self) -> str:
        suffix = "" if self.recovery == "ns2" else f"-{self.recovery}"
        return f"{self.capacity}pkt-window{self.window}{suffix}"

    @property
    def tables(self) -> dict[str, Any]:
        return {
            "fabric": {"buffer": f"{self.capacity * PACKET_KB:g}KB"},
            "transport": {"initial_window": self.window},
        }


def label(variant: str, setup: Setup, gap: str) -> str:
    """Return the scheme of a point."""
    return f"{variant}-{setup.name}-{gap}"


def points(
    given: Given,
    scenario: Path,
    setups: Sequence[Setup],
    variants: Sequence[str] = tuple(VARIANTS),
    gaps: Sequence[str] = GAPS,
) -> list[Point]:
    """Return every variant in every set-up at every gap."""
    document = read_document(scenario)
    return [
        point
        for setup in setups
        for point in axes(
            given,
            document,
            variants={
                label(variant, setup, gap): {
                    **VARIANTS[variant],
                    **setup.tables,
                    "workload": {"interarrival": gap},
                }
                for gap in gaps
                for variant in variants
            },
            settings=RECOVERIES[setup.recovery],
        )
    ]


def columns(bundle: Path) -> dict[str, float]:
    """Return FIGURES of a run; nan if it has no such flow. ValueError: a flow did not finish."""
    flows = read_flow_columns(bundle).need_finished()
    by_class = {name: flows.fct_us[flows.size_class == name] / 1000 for name in SIZE_CLASSES}
    return {**means(by_class), "small_p99": percentile(by_class["small"], 99)}


def change(
    runs: Runs, figure: str, variant: str, setup: Setup, gap: str, against: Setup | None = None
) -> Difference:
    """Return the difference to PIAS in the same set-up, or in `against`."""
    return runs.change(figure, label(variant, setup, gap), label("pias", against or setup, gap))


def fct_ms(runs: Runs, figures: Sequence[str], variant: str, setup: Setup, gap: str) -> dict[str, float]:
    """Return means over the seeds that have such flows."""
    where = label(variant, setup, gap)
    return {figure: float(np.nanmean(runs.values(figure, where))) for figure in figures}


def panels(rows: int, titles: Sequence[str], *, one_scale: bool) -> tuple[Figure, Grid]:
    """Return a grid with a line at 0 and titles above. With `one_scale` a row's panels share an axis."""
    sharing = "row" if one_scale else False
    figure, by_row = grid(rows, len(titles), height=2.7 + 0.5 / rows, sharey=sharing)
    for panel in (panel for row in by_row for panel in row):
        panel.axhline(0, color="0.5", linewidth=1, zorder=1)
        panel.grid(visible=False, axis="x")
    for panel, title in zip(by_row[0], titles, strict=True):
        panel.set_title(title, fontsize="medium")
    return figure, by_row
