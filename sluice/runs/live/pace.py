# SPDX-License-Identifier: Apache-2.0
"""How far a simulated network should be at a time of the wall clock. Pure: the caller passes the time.

    simulated time ≤ wall clock − origin

The network follows the wall clock. If the machine is too slow, the origin moves: the lag beyond MAX_LAG_S is
given up, and simulated time passes more slowly than real time. The dilation factor says by how much (Gupta et
al., "To infinity and beyond: time-warped network emulation", NSDI 2006).
"""

from __future__ import annotations

from collections import deque

from sluice.policy.units import PS_PER_S

MAX_LAG_S = 0.1
"""A network that is late by less than this catches up, for example after another process had the CPU."""
WINDOW_S = 5.0
"""The dilation factor is of the last seconds of the wall clock."""


class Pace:
    """The pace of one simulated network, whose time begins at 0."""

    def __init__(self, now_s: float) -> None:
        self._origin_s = now_s
        self._reached: deque[tuple[float, float]] = deque([(now_s, 0.0)])
        """(wall clock, simulated seconds) of the last WINDOW_S, oldest first."""

    def due_ps(self, now_s: float) -> int:
        """Return the simulated time that should be reached by now."""
        return max(0, round((now_s - self._origin_s) * PS_PER_S))

    def reached(self, now_s: float, simulated_ps: int) -> None:
        """Take how far the network is now, and give up the lag beyond MAX_LAG_S."""
        simulated_s = simulated_ps / PS_PER_S
        lag_s = now_s - self._origin_s - simulated_s
        self._origin_s += max(0.0, lag_s - MAX_LAG_S)
        self._reached.append((now_s, simulated_s))
        while len(self._reached) > 2 and self._reached[1][0] <= now_s - WINDOW_S:
            self._reached.popleft()

    @property
    def dilation(self) -> float:
        """Wall-clock seconds for each simulated second, over about the last WINDOW_S; 1 is real time.

        A network that catches up is not faster than real time, so the factor is at least 1.
        """
        (then_s, simulated_then_s), (now_s, simulated_s) = self._reached[0], self._reached[-1]
        if simulated_s <= simulated_then_s:
            return 1.0
        return max(1.0, (now_s - then_s) / (simulated_s - simulated_then_s))
