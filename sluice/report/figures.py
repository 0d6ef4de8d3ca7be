# SPDX-License-Identifier: Apache-2.0
"""The report's numbers: means over seeds with their deviation, ratios to a baseline, curves. It
draws nothing."""

from __future__ import annotations

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
