# SPDX-License-Identifier: Apache-2.0
"""How far the clock of another machine is from this one's, as the flows to it show.

    theta = the other machine's clock - this machine's clock

    started  <= arrived - theta     a flow's last byte arrives after its start
    answered - theta <= read        the notice is read after it was sent

    so   answered - read <= theta <= arrived - started

Each flow shows such an interval, which is as long as the flow and the way back of its notice took. The intervals of
several flows overlap, so the shortest flows narrow it. Between two flows it becomes longer again, because clocks drift.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import NamedTuple

from sluice.hostagent.wire import Notice, machine_number
from sluice.runtime.identity import boot

DRIFT = 1e-3
"""Linux corrects a clock by at most 500 ppm, so two of them drift apart by at most this much."""


class Difference(NamedTuple):
    """The other machine's clock minus this one's. The true difference is within `error_ns` of `ns`."""

    ns: int
    error_ns: int


class PeerClock:
    """The clock of one other machine. A step of a clock is forgotten with the first flow that contradicts it."""

    def __init__(self) -> None:
        self._low_ns = self._high_ns = 0
        self._learned_ns: int | None = None

    def learn(self, *, started_ns: int, arrived_ns: int, answered_ns: int, read_ns: int) -> Difference:
        """Take the times of a flow, and return the difference that they and those of earlier flows leave open.

        `started_ns` and `read_ns` are of this machine's clock, the others of the other's (CLOCK_REALTIME).
        """
        low_ns, high_ns = sorted((answered_ns - read_ns, arrived_ns - started_ns))
        if self._learned_ns is not None:
            drift_ns = round(abs(read_ns - self._learned_ns) * DRIFT)
            both = max(low_ns, self._low_ns - drift_ns), min(high_ns, self._high_ns + drift_ns)
            if both[0] <= both[1]:
                low_ns, high_ns = both
        self._low_ns, self._high_ns, self._learned_ns = low_ns, high_ns, read_ns
        return Difference((low_ns + high_ns) // 2, (high_ns - low_ns + 1) // 2)


class PeerClocks:
    """The clocks of all hosts to which this one sends."""

    def __init__(self) -> None:
        self._machine = machine_number(boot())
        self._clocks: defaultdict[str, PeerClock] = defaultdict(PeerClock)

    def arrival(self, address: str, started_ns: int, notice: Notice) -> tuple[int, int | None]:
        """Return when a flow arrived by this machine's clock, and by how much that can be wrong (ns).

        The error is None if both hosts are on one machine, because they have one clock.
        """
        if notice.machine == self._machine:
            return notice.arrived_ns, None
        difference = self._clocks[address].learn(
            started_ns=started_ns,
            arrived_ns=notice.arrived_ns,
            answered_ns=notice.answered_ns,
            read_ns=time.time_ns(),
        )
        return notice.arrived_ns - difference.ns, difference.error_ns
