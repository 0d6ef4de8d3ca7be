# SPDX-License-Identifier: Apache-2.0
"""Figures 6 and 7 of Gutiérrez et al. are one figure with two statistics: short flows, static against
dynamic thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.paired import Difference, signed
from experiments.kit.verdict import Claim
from experiments.papers.adaptive_thresholds.common import DYNAMIC_COLOUR, LOADS, STATIC_COLOUR, Runs
from experiments.papers.adaptive_thresholds.plot import BROAD, OPTIMUM_COLOUR, line, panels, save

MISMATCHED = ("1KB", "1000KB")
SAME = 0.02
"""Relative difference below which two means are called the same."""


@dataclass(frozen=True)
class Changes:
    """Of the dynamic runs over the static ones from one start, by load."""

    by_load: dict[float, Difference]

    @classmethod
    def of(cls, runs: Runs, figure: str, start: str, *, settled: bool = False) -> Changes:
        return cls({load: runs.change(figure, start, load, settled=settled) for load in LOADS})

    @property
    def lower(self) -> bool:
        """At every load, and not by chance."""
        return all(change.lower for change in self.by_load.values())

    @property
    def grows(self) -> bool:
        """The gain at the highest load is above that at the lowest."""
        changes = list(self.by_load.values())
        return changes[-1].high < changes[0].low

    def within(self, limit: float) -> bool:
        return all(abs(change.mean) <= limit for change in self.by_load.values())

    def __str__(self) -> str:
        first, *_, last = self.by_load.items()
        ends = [f"{change.mean:+.1%} at {load:.0%}" for load, change in (first, last)]
        return signed(" … ".join(ends))

    def to_document(self) -> dict[str, Any]:
        return {f"{load:g}": change.to_document() for load, change in self.by_load.items()}


def change_claim(
    runs: Runs, figure: str, start: str, what: str, paper: str, *, settled: bool = False
) -> Claim:
    """Lower at every load."""
    changes = Changes.of(runs, figure, start, settled=settled)
    return Claim(what, paper, str(changes), changes.lower)


def same_claim(runs: Runs, figure: str) -> Claim:
    changes = Changes.of(runs, figure, "10KB")
    return Claim("start 10 KB: dynamic against static", "close", str(changes), changes.within(SAME))


def numbers(runs: Runs, figures: tuple[str, ...]) -> dict[str, Any]:
    """Microseconds by variant and load, one value a seed; changes by start."""
    starts = (*MISMATCHED, "10KB")
    values = {
        f"{rule}-{start}": {
            f"{load:g}": {name: runs.figures(f"{rule}-{start}", load)[name] for name in figures}
            for load in LOADS
        }
        for rule in ("static", "dynamic")
        for start in starts
    }
    changes = {
        figure: {
            start: {
                "whole run": Changes.of(runs, figure, start).to_document(),
                "after the first adjustment": Changes.of(runs, figure, start, settled=True).to_document(),
            }
            for start in starts
        }
        for figure in figures
    }
    return {"fct_us": values, "changes": changes}


def plot(runs: Runs, figure: str, ylabel: str, path: Path, *, settled: bool) -> None:
    """A panel a start; `settled`: also the flows of the dynamic runs after the first adjustment."""
    drawn, axes = panels(len(MISMATCHED))
    for panel, start in zip(axes, MISMATCHED, strict=True):
        optimum = _by_load(runs, "static-10KB", figure)
        line(panel, LOADS, optimum, "static, 10 KB (the optimum)", OPTIMUM_COLOUR, width=BROAD)
        line(
            panel, LOADS, _by_load(runs, f"static-{start}", figure), f"static, {_size(start)}", STATIC_COLOUR
        )
        line(
            panel,
            LOADS,
            _by_load(runs, f"dynamic-{start}", figure),
            f"dynamic from {_size(start)}",
            DYNAMIC_COLOUR,
        )
        if settled:
            after = _by_load(runs, f"dynamic-{start}", figure, settled=True)
            line(panel, LOADS, after, "… after the first adjustment", DYNAMIC_COLOUR, "--")
        panel.set_title(f"start {_size(start)}", fontsize="medium")
        panel.set_xticks([100 * load for load in LOADS])
        panel.legend(frameon=False, fontsize="small", loc="upper left")
    axes[0].set_ylabel(ylabel)
    axes[0].set_ylim(0, 1.35 * max(np.max(_by_load(runs, f"static-{s}", figure)) for s in MISMATCHED))
    save(drawn, path)


def _by_load(runs: Runs, variant: str, figure: str, *, settled: bool = False) -> list[list[float]]:
    return [runs.figures(variant, load, settled=settled)[figure] for load in LOADS]


def _size(start: str) -> str:
    return start.replace("KB", " KB")
