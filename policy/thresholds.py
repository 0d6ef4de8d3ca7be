# SPDX-License-Identifier: Apache-2.0
"""Demotion thresholds from what a port has seen: a sliding window over its counters, and percentiles of flow sizes.

Source: Gutiérrez, Barcellos, Branch, "Dynamic adjustment of a MLFQ flow scheduler to improve cloud applications
performance", DYNA 85(206), 2018, section 3.2. Where the paper's switch keeps a sorted list of sizes, a port here keeps
a histogram over the tag's buckets: FIN packets counted by tag. That loses nothing that matters, because a
threshold can only be a bucket edge, and it costs 40 counters a port however many flows there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policy import tags

Counts = npt.NDArray[np.int64]
"""Completed flows by attained-service bucket, shape (40,)."""


def percentile_thresholds(completed: Counts, percentiles: Sequence[float]) -> tuple[int, ...]:
    """Thresholds in bytes: for each percentile (nearest rank) the upper edge of the bucket that holds it.

    `completed` has at least one flow. The result never decreases; equal neighbours leave the queue between them empty.
    """
    cumulative = np.cumsum(completed)
    ranks = np.maximum(1, np.ceil(np.asarray(percentiles) / 100.0 * cumulative[-1] - 1e-9))
    return tuple(tags.EDGES_BYTES[int(k)] for k in np.searchsorted(cumulative, ranks))


@dataclass
class SlidingCounts:
    """By how much cumulative counters have grown in the last `window_ns`. Counters are an array, always of one shape.

    The first counters are a baseline. One that went down has been reset and counts from zero.
    """

    window_ns: int
    _last: npt.NDArray[np.int64] | None = None
    _times_ns: deque[int] = field(default_factory=deque)
    """When counters came: the begin of the window, and all since."""
    _slices: deque[tuple[int, npt.NDArray[np.int64]]] = field(default_factory=deque)
    _sum: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def observe(self, now_ns: int, counters: npt.NDArray[np.int64]) -> None:
        """Take the counters as they stand now; times must not fall."""
        if self._last is None:
            self._sum = np.zeros_like(counters)
        else:
            grown = np.where(counters >= self._last, counters - self._last, counters)
            if grown.any():
                self._slices.append((now_ns, grown))
                self._sum += grown
        self._last = counters.copy()
        self._times_ns.append(now_ns)
        self._prune(now_ns)

    def _prune(self, now_ns: int) -> None:
        begin_ns = now_ns - self.window_ns
        while self._slices and self._slices[0][0] <= begin_ns:
            self._sum -= self._slices.popleft()[1]
        while len(self._times_ns) > 1 and self._times_ns[1] <= begin_ns:
            self._times_ns.popleft()

    @property
    def grown(self) -> npt.NDArray[np.int64] | None:
        """Growth within the window (a copy); None before the first counters."""
        return None if self._last is None else self._sum.copy()

    @property
    def covered_ns(self) -> int:
        """The time in which it grew by that: about the window, less at the begin."""
        return self._times_ns[-1] - self._times_ns[0] if self._times_ns else 0
