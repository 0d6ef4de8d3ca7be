# SPDX-License-Identifier: Apache-2.0
"""Figures of both simulators, and the greatest allowed differences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.kit.verdict import Claim
from sluice.policy.figures.metrics import size_classes
from sluice.policy.wire.records import SIZE_CLASSES

Floats = npt.NDArray[np.float64]

EXACT = 0.005
"""For a flow alone in the network."""
AVERAGE = 0.05
"""For means and medians."""
TAIL = 0.1
"""For 99th percentiles, and for counts of rare events."""
FEW = 3
"""Counts that differ by at most this number are equal."""


@dataclass(frozen=True)
class Figure:
    """One figure from both simulators, and their greatest allowed difference."""

    what: str
    unit: str
    ours: float
    """The median, if there are several runs."""
    ns3: float
    tolerance: float
    few: float = 0
    """Absolute difference up to which the figures are equal."""
    runs: tuple[float, ...] = ()
    """Our figure in every run with starts moved by up to 100 ns. It shows the effect of chance alone."""

    @property
    def ratio(self) -> float:
        """ns-3's figure over ours."""
        return self.ns3 / self.ours if self.ours else (1.0 if self.ns3 == self.ours else float("inf"))

    @property
    def holds(self) -> bool:
        return abs(self.ns3 - self.ours) <= max(self.few, self.tolerance * abs(self.ours))

    @property
    def is_chance(self) -> bool:
        """Whether ns-3 is at most as far from our median as our own runs are."""
        return bool(self.runs) and min(self.runs) <= self.ns3 <= max(self.runs)

    def document(self) -> dict[str, Any]:
        """Return it for the verdict's numbers."""
        return {**asdict(self), "ratio": self.ratio, "holds": self.holds, "is_chance": self.is_chance}

    def claim(self, explanation: str = "") -> Claim:
        """Return it as a claim of the verdict. ns-3's figure takes the place of a paper's."""
        chance = "as far apart as our own runs with starts moved by up to 100 ns" if self.is_chance else ""
        explanation = "" if self.holds else (chance or explanation)
        allowed = f"{number(self.ns3)} {self.unit}".strip()
        measured = f"{number(self.ours)}, ratio {self.ratio:.3f} (1 ± {self.tolerance:g}){self._range()}"
        return Claim(self.what, f"ns-3: {allowed}", measured, self.holds, explanation)

    def _range(self) -> str:
        return f", own runs {number(min(self.runs))} … {number(max(self.runs))}" if self.runs else ""


def number(value: float) -> str:
    """Return a number as text: large ones with commas, others with four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def times_of(fct_us: Floats, ideal_us: Floats) -> dict[str, float]:
    """Return completion times in microseconds and slowdowns of the finished flows."""
    done = ~np.isnan(fct_us)
    fct_us, slowdown = fct_us[done], (fct_us / ideal_us)[done]
    return {
        "FCT mean": float(fct_us.mean()),
        "FCT p50": float(np.median(fct_us)),
        "FCT p99": float(np.percentile(fct_us, 99)),
        "slowdown mean": float(slowdown.mean()),
        "slowdown p99": float(np.percentile(slowdown, 99)),
    }


def class_times(sizes_bytes: npt.NDArray[np.int64], fct_us: Floats, ideal_us: Floats) -> dict[str, float]:
    """Return the same for each size class with flows, for example as "small FCT mean"."""
    of_class = size_classes(sizes_bytes)
    return {
        f"{name} {what}": value
        for i, name in enumerate(SIZE_CLASSES)
        if (of_class == i).any()
        for what, value in times_of(fct_us[of_class == i], ideal_us[of_class == i]).items()
    }


def figures_of_times(
    name: str, runs: Sequence[Mapping[str, float]], ns3: Mapping[str, float]
) -> Iterable[Figure]:
    """Yield the figures. `runs` are ours, one or several."""
    for what, value in ns3.items():
        ours = tuple(run[what] for run in runs)
        yield Figure(
            what=f"{name}: {what}",
            unit="us" if "FCT" in what else "",
            ours=float(np.median(ours)),
            ns3=value,
            tolerance=TAIL if "p99" in what else AVERAGE,
            runs=ours if len(ours) > 1 else (),
        )


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's index (Jain, Chiu, Hawe, 1984): 1 if all shares are equal."""
    values = np.asarray(shares, float)
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))
