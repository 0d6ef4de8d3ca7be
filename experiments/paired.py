# SPDX-License-Identifier: Apache-2.0
"""Two schemes under the same traffic, seed by seed: by how much one differs from the other, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """Of one scheme over another, relative: -0.1 is 10 % less. Mean over the seeds with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def lower(self) -> bool:
        """It is lower, and not by chance."""
        return self.high < 0

    @property
    def higher(self) -> bool:
        return self.low > 0

    def __str__(self) -> str:
        return f"{self.mean:+.1%} ({self.low:+.1%} … {self.high:+.1%})".replace("-", "−").replace("%", " %")

    def to_document(self) -> dict[str, float | int]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": self.seeds}


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Mean over the seeds of ours/theirs - 1, by Student's t; both in the order of the seeds.

    Seeds in which either has no value (no flow of that class) are left out.
    """
    ratios = np.asarray(ours, float) / np.asarray(theirs, float) - 1
    ratios = ratios[~np.isnan(ratios)]
    mean, seeds = float(ratios.mean()), len(ratios)
    if seeds < 2:
        return Difference(mean, -np.inf, np.inf, seeds)
    half = float(t.ppf((1 + CONFIDENCE) / 2, seeds - 1) * ratios.std(ddof=1) / np.sqrt(seeds))
    return Difference(mean, mean - half, mean + half, seeds)
