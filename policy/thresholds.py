# SPDX-License-Identifier: Apache-2.0
"""Demotion thresholds from what a port has seen: a sliding window of completed flow sizes, and its percentiles.

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
class CompletedFlows:
    """The sliding window of one port: what completed in the last `window_ns`, fed with cumulative counters."""

    window_ns: int
    _last: Counts | None = None
    _slices: deque[tuple[int, Counts]] = field(default_factory=deque)
    _sum: Counts = field(default_factory=lambda: np.zeros(tags.ATTAINED_BUCKETS, np.int64))

    def observe(self, now_ns: int, counters: Counts) -> None:
        """Take the port's cumulative FIN counters; a counter that went down has been reset and counts from zero."""
        if self._last is not None:
            grown = np.where(counters >= self._last, counters - self._last, counters)
            if grown.any():
                self._slices.append((now_ns, grown))
                self._sum += grown
        self._last = counters.copy()
        self._prune(now_ns)

    def _prune(self, now_ns: int) -> None:
        while self._slices and self._slices[0][0] <= now_ns - self.window_ns:
            self._sum -= self._slices.popleft()[1]

    @property
    def completed(self) -> Counts:
        """Completed flows by bucket within the window (a copy)."""
        return self._sum.copy()

    @property
    def flows(self) -> int:
        return int(self._sum.sum())
