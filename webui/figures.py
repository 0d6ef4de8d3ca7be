# SPDX-License-Identifier: Apache-2.0
"""The flows of the last minutes in memory, and statistics of flows and port samples.

The statistics are pure, and vectorised because thousands of flows a second arrive.
"""

import math
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from sluice.policy.figures.metrics import distribution
from sluice.policy.wire.records import SIZE_CLASSES
from sluice.store.flow_queries import (
    LATEST_RECORD_S,
    MOST_COLUMNS,
    FlowColumns,
    flow_columns,
    flow_columns_after,
)
from sluice.store.observed import PortSample, ThresholdChange

SPAN_S = 960.0
"""How far back the memory reaches: the dashboard's usual windows and a minute more."""


class RecentFlows:
    """The flows of the last minutes as columns. Each record is read from the store once for all clients.

    Each call reads the new records; older flows come from the store itself. It holds at most MOST_COLUMNS flows,
    however many arrive.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._flows = FlowColumns.from_rows([])
        """Those that were read last come first."""
        self._sequence = 0
        self._covered_from = -math.inf
        """All flows that finished later are here."""

    def since(self, at: float, until: float = math.inf) -> FlowColumns:
        """Return the scheduled and watched flows that finished after `at`, as store.flow_queries.flow_columns does."""
        with self._lock:
            self._catch_up()
            flows, covered_from = self._flows, self._covered_from
        # If so many are here, the store would not give more, and to read 500,000 for each picture would cost seconds.
        are_most = len(flows) >= MOST_COLUMNS and until + LATEST_RECORD_S >= time.time()
        if at < covered_from and not are_most:
            return flow_columns(self._engine, at, until)
        return flows.where((flows.at > at) & (flows.at <= until))

    def _catch_up(self) -> None:
        now = time.time()
        covered_from = max(self._covered_from, now - SPAN_S)
        new, self._sequence = flow_columns_after(self._engine, self._sequence, covered_from)
        if len(new) >= MOST_COLUMNS:  # older flows may exist that were not read
            covered_from = max(covered_from, float(new.at.min()))
        flows = FlowColumns.joined([new, self._flows]) if len(new) else self._flows
        is_recent = flows.at > now - SPAN_S
        flows = flows if is_recent.all() else flows.where(is_recent)
        left_out = flows.at[MOST_COLUMNS:]
        if len(left_out):
            # A host's clock may be ahead.
            covered_from = max(covered_from, min(now, float(left_out.max())))
            flows = flows.where(np.arange(MOST_COLUMNS))
        self._flows, self._covered_from = flows, covered_from


CLASSES = ("all", *SIZE_CLASSES)

Statistics = dict[str, float | int | None]


def fct_by_class(flows: FlowColumns) -> dict[str, Statistics]:
    """Return n, mean and percentiles of the FCT in microseconds, for all flows and for each size class."""
    return _by_class(flows.fct_us, flows.size_class)


def slowdown_by_class(flows: FlowColumns) -> dict[str, Statistics]:
    """Return n, mean and percentiles of the slowdown, of the flows whose ideal FCT is known."""
    return _by_class(flows.slowdown, flows.size_class)


def _by_class(values: NDArray[np.float64], size_class: NDArray[np.uint8]) -> dict[str, Statistics]:
    known = ~np.isnan(values)
    return {name: distribution(values[known & _in_class(size_class, name)]) for name in CLASSES}


def fct_by_scheme(flows: FlowColumns) -> dict[str, dict[str, Statistics]]:
    """Return `fct_by_class` for each scheme that the flows ran under."""
    return {name: fct_by_class(its_flows) for name, its_flows in flows.by_scheme().items()}


def fct_series(flows: FlowColumns, since: float, until: float, bin_s: float) -> dict[str, Any]:
    """Return mean and percentiles of the FCT by class, in bins of the finishing time.

    Bins start at multiples of `bin_s`, so the bins of two answers match. `at` holds their starts.
    Every other list has one value for each bin, None if no flow finished in it.
    """
    first, count = bin_range(since, until, bin_s)
    chosen = ~np.isnan(flows.fct_us) & (flows.at >= first * bin_s)  # the other flows belong to no bin
    bins = _bin_of(flows.at[chosen], first, bin_s)
    fct_us, size_class = flows.fct_us[chosen], flows.size_class[chosen]
    by_value = np.argsort(fct_us)
    # Few bins: a stable sort of such small numbers takes linear time, and leaves the values of a bin in order. Those
    # of later flows may exceed the type, and are dropped below.
    order = by_value[np.argsort(bins[by_value].astype(np.int16), kind="stable")]
    fct_us, size_class, bins = fct_us[order], size_class[order], bins[order]
    series: dict[str, Any] = {"at": _bin_starts(first, count, bin_s)}
    for name in CLASSES:
        inside = _in_class(size_class, name) & (bins >= 0) & (bins < count)
        series[name] = _binned(fct_us[inside], bins[inside], count)
    return series


def deadline_totals(flows: FlowColumns) -> Statistics:
    n, missed = int(flows.has_deadline.sum()), int(flows.missed.sum())
    return {"n": n, "missed": missed, "miss_ratio": missed / n if n else None}


def deadline_series(flows: FlowColumns, since: float, until: float, bin_s: float) -> dict[str, Any]:
    """Return the flows with a deadline and the share that missed it, in bins as in `fct_series`."""
    first, count = bin_range(since, until, bin_s)
    chosen = flows.has_deadline & (flows.at >= first * bin_s)
    bins, missing = _bin_of(flows.at[chosen], first, bin_s), flows.missed[chosen]
    inside = (bins >= 0) & (bins < count)
    n = np.bincount(bins[inside], minlength=count)
    missed = np.bincount(bins[inside & missing], minlength=count)
    return {
        "at": _bin_starts(first, count, bin_s),
        "n": n.tolist(),
        "missed": missed.tolist(),
        "miss_ratio": [m / k if k else None for m, k in zip(missed.tolist(), n.tolist(), strict=True)],
    }


def bin_range(since: float, until: float, bin_s: float) -> tuple[int, int]:
    """Return the number of the first bin, and how many bins cover since … until."""
    first = int(since // bin_s)
    return first, int(until // bin_s) - first + 1


def _bin_starts(first: int, count: int, bin_s: float) -> list[float]:
    return [round((first + i) * bin_s, 3) for i in range(count)]


def _bin_of(at: NDArray[np.float64], first: int, bin_s: float) -> NDArray[np.int64]:
    return (at // bin_s).astype(np.int64) - first


def _in_class(size_class: NDArray[np.uint8], name: str) -> NDArray[np.bool_]:
    if name == "all":
        return np.ones(len(size_class), dtype=np.bool_)
    return np.equal(size_class, SIZE_CLASSES.index(name))


def _binned(values: NDArray[np.float64], bins: NDArray[np.int64], count: int) -> dict[str, list[Any]]:
    """Return the statistics of all bins. Values are sorted by (bin, value), so a percentile is a
    place in a bin's run."""
    n = np.bincount(bins, minlength=count)
    starts = np.concatenate(([0], np.cumsum(n)[:-1]))
    sums = np.concatenate(([0.0], np.cumsum(values)))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (sums[starts + n] - sums[starts]) / n
    columns = {"mean": mean, **{f"p{q}": _percentile(values, starts, n, q / 100) for q in (50, 95, 99)}}
    listed = {
        name: [
            value if k else None for value, k in zip(np.round(column, 1).tolist(), n.tolist(), strict=True)
        ]
        for name, column in columns.items()
    }
    return {"n": n.tolist(), **listed}


def _percentile(
    values: NDArray[np.float64], starts: NDArray[np.int64], n: NDArray[np.int64], share: float
) -> NDArray[np.float64]:
    """Return the linearly interpolated percentile of each run of sorted values, as
    numpy.percentile computes it."""
    if not len(values):
        return np.zeros(len(n))
    place = np.maximum(n - 1, 0) * share
    low = np.minimum(starts + place.astype(np.int64), len(values) - 1)
    high = np.minimum(low + (place % 1 > 0), len(values) - 1)
    result: NDArray[np.float64] = values[low] + (values[high] - values[low]) * (place % 1)
    return result


def port_rates(samples: Iterable[PortSample]) -> dict[str, list[dict[str, Any]]]:
    """Return each port's rates between neighbouring samples of its cumulative counters, oldest first.

    If a counter went back, because its switch restarted, that interval is left out.
    """
    grouped: dict[str, list[PortSample]] = {}
    for sample in samples:
        grouped.setdefault(sample.port, []).append(sample)
    return {
        port: [rate for before, after in pairwise(run) if (rate := _rate(before, after)) is not None]
        for port, run in grouped.items()
    }


def _rate(before: PortSample, after: PortSample) -> dict[str, Any] | None:
    elapsed_s = after.at - before.at
    gained = [late - early for early, late in zip(before.queue_bytes, after.queue_bytes, strict=False)]
    if elapsed_s <= 0 or len(before.queue_bytes) != len(after.queue_bytes) or any(g < 0 for g in gained):
        return None
    return {
        "at": after.at,
        "rate_bps": round(sum(gained) * 8 / elapsed_s),
        "queue_rates_bps": [round(g * 8 / elapsed_s) for g in gained],
    }


def thinned(changes: Sequence[ThresholdChange], resolution_s: float) -> list[ThresholdChange]:
    """Return each port's last change in every interval of that length; all changes if the length is 0."""
    if not resolution_s:
        return list(changes)
    last = {(change.port, change.at // resolution_s): change for change in changes}
    return sorted(last.values(), key=lambda change: change.at)
