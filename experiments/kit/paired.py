# SPDX-License-Identifier: Apache-2.0
"""The difference of two schemes under the same traffic, seed by seed, with a confidence interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """The relative difference of one scheme to another, with its 95 % interval. -0.1 means 10 % less."""

    mean: float
    low: float
    high: float
    seeds: int
    single: float
    """Standard deviation of single seeds: how far one run may be from the true value."""

    @property
    def lower(self) -> bool:
        """Whether the whole interval is below zero: lower, and not by chance."""
        return self.high < 0

    def __str__(self) -> str:
        return signed(f"{self.mean:+.1%} ({self.low:+.1%} … {self.high:+.1%})")

    def to_document(self) -> dict[str, float | int]:
        return dict(vars(self))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Return the mean of ours over the mean of theirs, less 1. Both are in the order of the seeds.

    The interval is that of a ratio estimator (Cochran, Sampling Techniques, 6.4). A mean of ratios
    would depend most on the seeds with small values of theirs. A seed without a value on either
    side is left out.
    """
    pairs = np.asarray([ours, theirs], float)
    x, y = pairs[:, ~np.isnan(pairs).any(axis=0)]
    seeds, ratio = len(x), float(x.sum() / y.sum())
    if seeds < 2:
        return Difference(ratio - 1, -np.inf, np.inf, seeds, np.nan)
    deviation = float((x - ratio * y).std(ddof=1) / (np.sqrt(seeds) * y.mean()))
    half = float(t.ppf((1 + CONFIDENCE) / 2, seeds - 1)) * deviation
    return Difference(ratio - 1, ratio - 1 - half, ratio - 1 + half, seeds, float((x / y).std(ddof=1)))


@dataclass(frozen=True)
class Changes:
    """The differences of one scheme to another, at every load."""

    by_load: Mapping[float, Difference]

    @property
    def lower(self) -> bool:
        """Whether the figure is lower at every load, and not by chance."""
        return all(change.lower for change in self.by_load.values())

    @property
    def grows(self) -> bool:
        """Whether the gain at the highest load exceeds the gain at the lowest, not by chance."""
        changes = list(self.by_load.values())
        return changes[-1].high < changes[0].low

    def within(self, limit: float) -> bool:
        return all(abs(change.mean) <= limit for change in self.by_load.values())

    def __str__(self) -> str:
        """Return the differences at the first and at the last load."""
        ends = sorted({0, len(self.by_load) - 1})
        shown = [list(self.by_load.items())[place] for place in ends]
        return signed(" … ".join(f"{change.mean:+.1%} at {load:.0%}" for load, change in shown))

    def to_document(self) -> dict[str, Any]:
        return {f"{load:g}": change.to_document() for load, change in self.by_load.items()}


def signed(text: str) -> str:
    """Return percentages in print form: a true minus, a space before the percent sign."""
    return text.replace("-", "−").replace("%", " %")
