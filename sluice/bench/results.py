# SPDX-License-Identifier: Apache-2.0
"""A line of the table that `sluice bench` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One line of the table. `baseline` was measured in the same run; ratio = value / baseline.

    If the two took turns, `paired_ratio` is the median of the ratios of neighbouring measurements,
    which is steadier.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_name: str = ""
    paired_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        if self.paired_ratio is not None:
            return self.paired_ratio
        return self.value / self.baseline if self.baseline else None
