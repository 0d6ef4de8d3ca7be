# SPDX-License-Identifier: Apache-2.0
"""Demotion thresholds from a port's counters: a sliding window over them, and percentiles of flow sizes.

Source: Gutiérrez, Barcellos, Branch, "Dynamic adjustment of a MLFQ flow scheduler to improve cloud
applications performance", DYNA 85(206), 2018, section 3.2. The paper's switch keeps a sorted list
of sizes. Here a port keeps a histogram over the tag's buckets: FIN packets by tag. A threshold can
only be a bucket's edge, so no relevant information is lost. A port needs 40 counters for any
number of flows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sluice.policy import tags

Counts = npt.NDArray[np.int64]
"""Completed flows by attained-service bucket, shape (40,)."""
Weights = npt.NDArray[np.float64]
"""The same with weights, which may be fractions."""


def percentile_thresholds(completed: Counts | Weights, percentiles: Sequence[float]) -> tuple[int, ...]:
    """Return thresholds in bytes: for each percentile (nearest rank) the upper edge of the bucket
    that holds it.

    `completed` has at least one flow. The result never decreases; equal neighbours leave the queue
    between them empty.
    """
    (edges,) = percentile_edges(completed[None, :], percentiles)
    return tuple(tags.EDGES_BYTES[k] for k in edges)


def percentile_edges(completed: Counts | Weights, percentiles: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return the same for P ports at once, shape (P, 40), as indices of the edges, shape (P, percentiles)."""
    cumulative = np.cumsum(completed, axis=1)
    part = np.asarray(percentiles) / 100.0
    # A part above zero: with whole counts, this is the nearest rank. Sums of fractions may be off by rounding.
    needed = np.maximum(part * cumulative[:, -1:] * (1 - 1e-9), 1e-12)
    below = np.count_nonzero(cumulative[:, None, :] < needed[:, :, None], axis=2)
    return np.asarray(np.minimum(below, tags.ATTAINED_BUCKETS - 1), np.int64)


MOST_GROWN = 1 << 48
"""No counter grows by this much between two readings: 281 TB."""
_SLICES_A_WINDOW = 256


@dataclass
class SlidingCounts:
    """The growth of cumulative counters in the last `window_ns`. Counters are an array, always of one shape.

    The first counters are a baseline. A counter has 64 bits and wraps around. A counter that
    decreased otherwise was reset and counts from zero. To bound the memory, counters that arrive
    more often than 256 times in a window are combined.
    """

    window_ns: int
    _last: npt.NDArray[np.int64] | None = None
    _times_ns: deque[int] = field(default_factory=deque)
    """Arrival times of counters: the start of the window, and all later ones."""
    _slices: deque[tuple[int, npt.NDArray[np.int64]]] = field(default_factory=deque)
    _sum: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def observe(self, now_ns: int, counters: npt.NDArray[np.int64]) -> None:
        """Take the counters of this moment. Times must not decrease."""
        if self._last is None:
            self._sum = np.zeros_like(counters)
            self._times_ns.append(now_ns)
        else:
            self._append(now_ns, growth(self._last, counters))
        self._last = counters.copy()
        self._prune(now_ns)

    def _append(self, now_ns: int, grown: npt.NDArray[np.int64]) -> None:
        self._sum += grown
        before_ns = self._times_ns[-1]
        if len(self._times_ns) > 1 and now_ns - self._times_ns[-2] < self.window_ns // _SLICES_A_WINDOW:
            self._times_ns.pop()
            if self._slices and self._slices[-1][0] == before_ns:
                grown = grown + self._slices.pop()[1]
        self._times_ns.append(now_ns)
        if grown.any():
            self._slices.append((now_ns, grown))

    def _prune(self, now_ns: int) -> None:
        begin_ns = now_ns - self.window_ns
        while self._slices and self._slices[0][0] <= begin_ns:
            self._sum -= self._slices.popleft()[1]
        while len(self._times_ns) > 1 and self._times_ns[1] <= begin_ns:
            self._times_ns.popleft()

    @property
    def grown(self) -> npt.NDArray[np.int64] | None:
        """Return the growth within the window (a copy); None before the first counters."""
        return None if self._last is None else self._sum.copy()

    @property
    def covered_ns(self) -> int:
        """The time of that growth: about the window, and less at the start."""
        return self._times_ns[-1] - self._times_ns[0] if self._times_ns else 0


def growth(before: npt.NDArray[np.int64], now: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the growth between two readings of cumulative counters. int64 holds the 64 bits and
    wraps like them.

    A counter that a switch does not support always has all bits set (OpenFlow 1.3.5, section 5.8)
    and does not grow.
    """
    grown = now - before
    went_down = (grown < 0) | (grown >= MOST_GROWN)
    if went_down.any():
        since_reset = np.where((now >= 0) & (now < MOST_GROWN), now, 0)
        grown = np.where(went_down, since_reset, grown)
    return grown
