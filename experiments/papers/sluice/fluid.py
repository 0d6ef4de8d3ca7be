# SPDX-License-Identifier: Apache-2.0
"""One link with perfect senders, event by event: the times of flows whose parts are served from any queues.

The formulas of `bounds.py` cover flows that only ever drop. Here, a flow may also rise. Queues are served by strict
priority, and the flows of a queue share it equally. Times are in bytes of the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Parts = Sequence[tuple[float, int]]
"""(where the part ends, in bytes of the flow; the queue that serves it), in the order of the bytes."""


@dataclass
class _Queue:
    """Flows that share a queue equally."""

    served: float = 0.0
    """Bytes that a flow which was always here has got."""
    waiting: list[tuple[float, int]] = field(default_factory=list)
    """(value of `served` at which the flow has got its part, flow), a heap."""

    def join(self, flow: int, need: float) -> None:
        heappush(self.waiting, (self.served + need, flow))

    @property
    def time_left(self) -> float:
        """Time until the first flow has its part, if only this queue is served."""
        return (self.waiting[0][0] - self.served) * len(self.waiting)


class _Flows:
    """The flows of a run, with the part that each is in."""

    def __init__(self, sizes: Floats, parts: Parts) -> None:
        self.sizes, self._parts = sizes, parts
        self._part = [0] * len(sizes)
        self._sent = [0.0] * len(sizes)
        self.queues = [_Queue() for _ in range(1 + max(queue for _, queue in parts))]

    def begin(self, flow: int) -> None:
        """The flow waits for its next part."""
        end, queue = self._parts[self._part[flow]]
        self.queues[queue].join(flow, min(end, self.sizes[flow]) - self._sent[flow])

    def finish_part(self, flow: int) -> bool:
        """The flow has its part. Return whether it ends."""
        end, _ = self._parts[self._part[flow]]
        if self.sizes[flow] <= end:
            return True
        self._sent[flow], self._part[flow] = end, self._part[flow] + 1
        self.begin(flow)
        return False


def times(sizes: Floats, arrivals: Floats, parts: Parts) -> Floats:
    """Return how long each flow takes from its arrival. The link carries one byte in a unit of time."""
    flows, took = _Flows(sizes, parts), np.empty(len(sizes))
    now, coming = 0.0, 0
    while True:
        queue = next((one for one in flows.queues if one.waiting), None)
        arrives = arrivals[coming] if coming < len(sizes) else inf
        if queue is None and arrives == inf:
            return took
        if queue is None or now + queue.time_left > arrives:
            if queue is not None:
                queue.served += (arrives - now) / len(queue.waiting)
            now = arrives
            flows.begin(coming)
            coming += 1
            continue
        now += queue.time_left
        queue.served, flow = heappop(queue.waiting)
        if flows.finish_part(flow):
            took[flow] = now - arrivals[flow]
