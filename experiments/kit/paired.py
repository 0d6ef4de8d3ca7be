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
    """Of one scheme over another, relative: -0.1 is 10 % less; with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    seeds: int
    single: float
    """Standard deviation of what single seeds show: how far one run may be from the truth."""

    @property
    def lower(self) -> bool:
        """It is lower, and not by chance."""
        return self.high < 0

    @property
    def higher(self) -> bool:
        return self.low > 0

    def __str__(self) -> str:
        return signed(f"{self.mean:+.1%} ({self.low:+.1%} … {self.high:+.1%})")

    def to_document(self) -> dict[str, float | int]:
        return dict(vars(self))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Mean of ours over mean of theirs, less 1; both in the order of the seeds.

    The ratio of the means, with the interval of a ratio estimator (Cochran, Sampling Techniques, 6.4): a mean of ratios
    would be ruled by the seeds in which theirs happens to be small. Seeds in which either has no value are left out.
    """
    pairs = np.asarray([ours, theirs], float)
    x, y = pairs[:, ~np.isnan(pairs).any(axis=0)]
    seeds, ratio = len(x), float(x.sum() / y.sum())
    if seeds < 2:
        return Difference(ratio - 1, -np.inf, np.inf, seeds, np.nan)
    deviation = float((x - ratio * y).std(ddof=1) / (np.sqrt(seeds) * y.mean()))
    half = float(t.ppf((1 + CONFIDENCE) / 2, seeds - 1)) * deviation
    return Difference(ratio - 1, ratio - 1 - half, ratio - 1 + half, seeds, float((x / y).std(ddof=1)))


def signed(text: str) -> str:
    """Percentages as they are printed: a true minus, a space before the sign."""
    return text.replace("-", "−").replace("%", " %")
