# SPDX-License-Identifier: Apache-2.0
"""What fish_fig6, fish_fig8 and fish_fig9 share: schemes, points, figures of many seeds.

FISH is PIAS with two changes: a queue for each flow inside a priority, and a share of the link for each
priority. `VARIANTS` has each alone, so that their effects can be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.paired import Difference, difference
from experiments.kit.pool import Flows, percentile, read_flows
from policy.records import SIZE_CLASSES
from policy.schemes import SCHEMES
from sluice.sweep.points import Point, points

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
TITLES = {
    "pias-shares": "shares alone",
    "fish-strict": "flow queues alone",
    "fish": "FISH: both",
}
COLOURS = {"pias-shares": "#bbbbbb", "fish-strict": "#4477aa", "fish": SCHEMES["fish"].colour}

RECOVERIES: Mapping[str, Mapping[str, Any]] = {
    "ns2": {},
    "timeouts": {"simulator.duplicate_threshold": 0},
    "linux": {"simulator.recovery": "linux"},
}
"""How losses are told and mended: as in ns-2; as in PIAS's scripts, where three later packets do not yet make a loss;
as in Linux."""

FIGURES = ("small_mean", "small_p99", "medium_mean", "large_mean")
FIGURE_TITLES = {
    "small_mean": "small flows, mean",
    "small_p99": "small flows, p99",
    "medium_mean": "medium flows, mean",
    "large_mean": "large flows, mean",
}


@dataclass(frozen=True)
class Setup:
    """What the paper leaves open, or varies: the buffer of a port and the first window, in packets; recovery."""

    capacity: int = 240
    window: int = 70
    recovery: str = "ns2"
    """A key of RECOVERIES."""

    @property
    def name(self) -> str:
        suffix = "" if self.recovery == "ns2" else f"-{self.recovery}"
        return f"{self.capacity}pkt-window{self.window}{suffix}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """For every scheme alike."""
        return RECOVERIES[self.recovery]

    @property
    def tables(self) -> dict[str, Any]:
        return {
            "fabric": {"buffer": f"{self.capacity * PACKET_KB:g}KB"},
            "transport": {"initial_window": self.window},
        }


def label(variant: str, setup: Setup, gap: str) -> str:
    """The scheme of a point."""
    return f"{variant}-{setup.name}-{gap}"


def planned(
    document: Mapping[str, Any],
    setups: Sequence[Setup],
    seeds: Sequence[int],
    variants: Sequence[str] = tuple(VARIANTS),
    gaps: Sequence[str] = GAPS,
) -> list[Point]:
    """Every variant in every set-up at every gap."""
    return [point for setup in setups for point in _of_setup(document, setup, seeds, variants, gaps)]


def _of_setup(
    document: Mapping[str, Any],
    setup: Setup,
    seeds: Sequence[int],
    variants: Sequence[str],
    gaps: Sequence[str],
) -> list[Point]:
    plans = {
        label(variant, setup, gap): {**VARIANTS[variant], **setup.tables, "workload": {"interarrival": gap}}
        for gap in gaps
        for variant in variants
    }
    sweep = {"scheme": plans, "schemes": list(plans), "seeds": list(seeds)}
    return points({**document, "sweep": sweep}, settings=setup.settings)


def figures_of(flows: Flows) -> dict[str, float]:
    """Milliseconds; nan where a run has no such flow. A flow that did not finish is an error."""
    if np.isnan(flows.fct_us).any():
        raise ValueError("flows are unfinished: their figures would be too good")
    by_class = {name: flows.fct_us[flows.size_class == name] / 1000 for name in SIZE_CLASSES}
    means = {f"{name}_mean": float(fct.mean()) if len(fct) else np.nan for name, fct in by_class.items()}
    return {**means, "small_p99": percentile(by_class["small"], 99)}


@dataclass(frozen=True)
class Runs:
    """Where the runs are, and which."""

    folder: Path
    seeds: tuple[int, ...]

    def flows(self, variant: str, setup: Setup, gap: str) -> list[Flows]:
        """In the order of the seeds."""
        return [
            read_flows(self.folder / Point(label(variant, setup, gap), None, seed, {}).name)
            for seed in self.seeds
        ]

    def figures(self, variant: str, setup: Setup, gap: str) -> dict[str, list[float]]:
        """Each figure of FIGURES, one value a seed."""
        runs = [figures_of(flows) for flows in self.flows(variant, setup, gap)]
        return {name: [run[name] for run in runs] for name in FIGURES}

    def change(
        self, figure: str, variant: str, setup: Setup, gap: str, against: Setup | None = None
    ) -> Difference:
        """Over PIAS in the same set-up, or another's."""
        ours = self.figures(variant, setup, gap)[figure]
        return difference(ours, self.figures("pias", against or setup, gap)[figure])
