# SPDX-License-Identifier: Apache-2.0
"""The report's numbers: means over seeds with their deviation, ratios to a baseline, curves, and how they are written.

Numbers have three significant digits, and one unit for all values that are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.report.runs import Flows, Run, Variant

BINS_PER_DECADE = 3
MIN_FOR_MEAN, MIN_FOR_P99 = 10, 100
"""Flows that a size bin needs for its mean and for its 99th percentile."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """The mean of a figure over seeds."""

    mean: float
    deviation: float | None
    """Standard deviation over the seeds; None with a single seed."""
    n: int
    """Number of runs that have the figure."""


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """Return the mean of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Estimate(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def of_class(runs: Sequence[Run], measure: str, group: str, name: str) -> Estimate | None:
    """Return a figure of the summaries, for example ("fct_us", "small", "p99")."""
    return estimate(run.summary[measure][group][name] for run in runs)


def miss_ratio(runs: Sequence[Run]) -> Estimate | None:
    return estimate(run.summary["deadlines"]["miss_ratio"] for run in runs)


def ratio(
    runs: Sequence[Run], to: Sequence[Run], figure: Callable[[Sequence[Run]], Estimate | None]
) -> Estimate | None:
    """Return the ratio of a figure to the baseline's.

    If both have the same seeds, it is the mean of each seed's ratio, otherwise the ratio of the
    means.
    """
    seeds = {run.seed: run for run in to}
    pairs = [(figure([run]), figure([seeds[run.seed]])) for run in runs if run.seed in seeds]
    if len(pairs) == len(runs) == len(to):
        return estimate(a.mean / b.mean if a and b and b.mean else None for a, b in pairs)
    above, below = figure(runs), figure(to)
    return Estimate(above.mean / below.mean, None, above.n) if above and below and below.mean else None


def pooled(runs: Sequence[Run]) -> Flows:
    """Return the finished flows of all these runs together."""
    parts = [run.flows() for run in runs]
    return Flows(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("size_bytes", "size_class", "fct_us", "slowdown")
        )
    )


@dataclass(frozen=True)
class SizeBins:
    """Slowdown by flow size. A figure with too few flows in its bin is nan."""

    size_bytes: Floats
    """Geometric mean of the sizes in each bin."""
    mean: Floats
    p99: Floats
    flows: npt.NDArray[np.int64]


def slowdown_by_size(flows: Flows) -> SizeBins:
    """Return bins of a third of a decade, without empty ones."""
    known = ~np.isnan(flows.slowdown)
    logs, slowdown = np.log10(flows.size_bytes[known]), flows.slowdown[known]
    numbers = np.floor(logs * BINS_PER_DECADE + 1e-9).astype(int)
    rows = []
    for number in np.unique(numbers):
        inside = numbers == number
        values, n = slowdown[inside], int(inside.sum())
        mean = values.mean() if n >= MIN_FOR_MEAN else np.nan
        p99 = np.percentile(values, 99) if n >= MIN_FOR_P99 else np.nan
        rows.append((10 ** logs[inside].mean(), mean, p99, n))
    size, means, tails, counts = (
        (np.array(column, float) for column in zip(*rows, strict=True)) if rows else _NOTHING
    )
    return SizeBins(size, means, tails, counts.astype(int))


_NOTHING = (np.empty(0),) * 4


def loads_of(variants: Iterable[Variant]) -> list[float | None]:
    """Return every load of any run, rising. None, for scenarios without a load, comes first."""
    loads = {run.load for variant in variants for run in variant.runs}
    return sorted(loads, key=lambda load: -1.0 if load is None else load)


# ── As text ──────────────────────────────────────────────────────────────────────────────────────────


NOTHING = "–"
THIN = "\N{NARROW NO-BREAK SPACE}"
_TIMES_US = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))
_SIZES = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0))


@dataclass(frozen=True)
class Scale:
    """A unit, and the factor that converts values to it."""

    unit: str
    factor: float

    def show(self, figure: Estimate | None) -> str:
        """Return the mean with three digits, and the deviation to the same decimal."""
        if figure is None:
            return NOTHING
        mean = figure.mean * self.factor
        decimals = _decimals(mean)
        text = _grouped(mean, decimals)
        return (
            text
            if figure.deviation is None
            else f"{text} ± {_grouped(figure.deviation * self.factor, decimals)}"
        )


PLAIN = Scale("", 1.0)
"""For slowdowns and ratios."""
PERCENT = Scale("%", 100.0)


def time_scale(values_us: Iterable[float]) -> Scale:
    """Return the unit for times in microseconds: by their geometric mean, but fine enough for the smallest."""
    known = [value for value in values_us if value > 0] or [1.0]
    middle, least = statistics.geometric_mean(known), min(known)
    for unit, size_us in _TIMES_US:
        if middle >= size_us / 2 and least >= size_us / 10:
            return Scale(unit, 1 / size_us)
    return Scale("µs", 1.0)


def percent(share: Estimate | None) -> str:
    text = PERCENT.show(share)
    return text if share is None else f"{text} %"


def time_text(time_us: float) -> str:
    """Return a time as 20 µs or 1.5 ms."""
    return _with_unit(time_us, _TIMES_US)


def size_text(size_bytes: float) -> str:
    """Return a size as 100 KB or 1.5 MB."""
    return _with_unit(size_bytes, _SIZES)


def factor_text(factor: float) -> str:
    """Return a factor as 0.5, 2 or 10 000."""
    return _grouped(factor, 0) if factor >= 1000 else f"{factor:g}"


def count(number: int) -> str:
    return _grouped(number, 0)


def _with_unit(value: float, units: Sequence[tuple[str, float]]) -> str:
    unit, size = next((pair for pair in units if value >= pair[1]), units[-1])
    return f"{value / size:g}{THIN}{unit}"


def _decimals(value: float) -> int:
    return 2 if value == 0 else min(3, max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9)))


def _grouped(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace(",", THIN)
