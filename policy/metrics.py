# SPDX-License-Identifier: Apache-2.0
"""The figures of a run: FCT and slowdown by size class, deadline misses, unfinished flows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.records import SCHEDULED, SIZE_CLASSES, UNFINISHED, WATCHED, FlowRecord

Array = npt.NDArray[np.float64]


def distribution(values: Array) -> dict[str, float | int | None]:
    """n, mean, median, 95th and 99th percentile. All but n are None if there are no values."""
    if not len(values):
        return {"n": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
    }


@dataclass(frozen=True)
class FlowFigures:
    """The flows of a run as columns, from which its figures are computed."""

    fct_us: Array
    """nan if the flow did not finish."""
    slowdown: Array
    """nan if the flow did not finish, or if its ideal FCT is unknown."""
    size_class: npt.NDArray[np.uint8]
    """Index in SIZE_CLASSES."""
    has_deadline: npt.NDArray[np.bool_]
    met: npt.NDArray[np.bool_]
    """False if the flow has no deadline."""
    retransmissions: int
    """Sum over all flows."""

    @classmethod
    def of(cls, records: Iterable[FlowRecord], source: str = SCHEDULED) -> FlowFigures:
        """The columns of the flows of this source among the records."""
        flows = [record for record in records if record.source == source]
        return cls(
            fct_us=_or_nan(flow.fct_us for flow in flows),
            slowdown=_or_nan(flow.slowdown for flow in flows),
            size_class=np.asarray([SIZE_CLASSES.index(flow.size_class) for flow in flows], np.uint8),
            has_deadline=np.asarray([flow.deadline_us is not None for flow in flows], bool),
            met=np.asarray([flow.met is True for flow in flows], bool),
            retransmissions=sum(flow.retransmissions or 0 for flow in flows),
        )


def summarise(flows: Iterable[FlowRecord] | FlowFigures) -> dict[str, Any]:
    """The figures in a run's summary.json, without its validity."""
    figures = flows if isinstance(flows, FlowFigures) else FlowFigures.of(flows)
    n, missed = int(figures.has_deadline.sum()), int((figures.has_deadline & ~figures.met).sum())
    return {
        "fct_us": _by_class(figures, figures.fct_us),
        "slowdown": _by_class(figures, figures.slowdown),
        "deadlines": {"n": n, "missed": missed, "miss_ratio": missed / n if n else None},
        "retransmissions": figures.retransmissions,
        "unfinished": int(np.isnan(figures.fct_us).sum()),
    }


def summarise_watched(records: Iterable[FlowRecord]) -> dict[str, Any]:
    """The figures of the flows that other programs had during a run."""
    flows = [record for record in records if record.source == WATCHED]
    figures = summarise(FlowFigures.of(flows, WATCHED))
    return {
        "n": len(flows),
        "fct_us": figures["fct_us"],
        "slowdown": figures["slowdown"],
        "bytes": sum(flow.bytes for flow in flows),
        "retransmissions": sum(flow.retransmissions or 0 for flow in flows),
        "unfinished": sum(flow.status == UNFINISHED for flow in flows),
        "deadlines": sum(flow.met is not None for flow in flows),
        "missed": sum(flow.met is False for flow in flows),
    }


def cdf(values: Array, points: int) -> tuple[Array, Array]:
    """Return (values, share of all that does not exceed each), with finer steps in the upper tail."""
    ordered = np.sort(values)
    last = len(ordered) - 1
    middle = np.linspace(0, last, points)
    tail = last - np.geomspace(1, max(last, 1), points // 4)
    index = np.unique(np.clip(np.concatenate([middle, tail]).round().astype(int), 0, last))
    return ordered[index], (index + 1) / len(ordered)


def _by_class(figures: FlowFigures, values: Array) -> dict[str, dict[str, float | int | None]]:
    measured = ~np.isnan(values)
    groups = {"all": values[measured]}
    for index, name in enumerate(SIZE_CLASSES):
        groups[name] = values[measured & (figures.size_class == index)]
    return {name: distribution(group) for name, group in groups.items()}


def _or_nan(values: Iterable[float | None]) -> Array:
    return np.asarray([np.nan if value is None else value for value in values], np.float64)
