# SPDX-License-Identifier: Apache-2.0
"""The figures of a run while it lasts, in memory of a fixed size: exact counts and means, and 99th percentiles from a
histogram."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sluice.policy.figures.metrics import FlowFigures
from sluice.policy.wire.records import ALL, SIZE_CLASSES

_STEP = math.log(1.02)
_BINS = math.ceil(math.log(1e11) / _STEP)
"""Bins that are 2 % wide, from 1 µs to a day."""


class RunningFigures:
    """The figures of the flows that have ended so far."""

    def __init__(self) -> None:
        self._counts = np.zeros((len(SIZE_CLASSES), _BINS), np.int64)
        self._sums_us = np.zeros(len(SIZE_CLASSES))
        self._deadlines = self._missed = self._unfinished = 0

    def add(self, flows: FlowFigures) -> None:
        """Add flows that have ended."""
        finished = ~np.isnan(flows.fct_us)
        fct_us, classes = flows.fct_us[finished], flows.size_class[finished]
        bins = np.clip(np.log(np.maximum(fct_us, 1.0)) / _STEP, 0, _BINS - 1).astype(np.int64)
        np.add.at(self._counts, (classes, bins), 1)
        self._sums_us += np.bincount(classes, weights=fct_us, minlength=len(SIZE_CLASSES))
        self._unfinished += int((~finished).sum())
        self._deadlines += int(flows.has_deadline.sum())
        self._missed += int((flows.has_deadline & ~flows.met).sum())

    def document(self) -> dict[str, Any]:
        """Return the figures by size class as JSON. A 99th percentile is within 1 % of the exact one."""
        classes = {
            name: _figures(self._counts[i], float(self._sums_us[i])) for i, name in enumerate(SIZE_CLASSES)
        }
        whole = _figures(self._counts.sum(axis=0), float(self._sums_us.sum()))
        return {
            "classes": {**classes, ALL: whole},
            "deadlines": self._deadlines,
            "missed": self._missed,
            "unfinished": self._unfinished,
        }


def _figures(counts: np.ndarray[Any, Any], sum_us: float) -> dict[str, Any]:
    n = int(counts.sum())
    if not n:
        return {"n": 0, "mean_us": None, "p99_us": None}
    place = int(np.searchsorted(np.cumsum(counts), 0.99 * n))
    return {"n": n, "mean_us": sum_us / n, "p99_us": math.exp((place + 0.5) * _STEP)}
