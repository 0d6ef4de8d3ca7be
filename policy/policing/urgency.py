# SPDX-License-Identifier: Apache-2.0
"""Whether deadlines explain the urgency tags that arrive at edge ports. Pure: the time is an argument.

Any host can write an urgency tag, and no limit follows from the tag itself. But a tagger writes urgency only for flows
whose program has declared a deadline, and it counts what it has tagged. Agents report this count with every heartbeat:

    unexplained = payload that arrived under urgency tags - payload that the agents behind the port have tagged

Root on a host can make its agent report anything. So there is a second limit, which believes no one: a budget of urgent
payload, which a share of the link fills again.

The sum is over all flows of a port, so the work is proportional to the number of ports. A report is later than the
packets that it counts, on a busy machine by seconds. But an agent says which answer of the web process it had when it
counted, so the report is compared with what had arrived by then. A port without an agent has no deadlines, and nothing
explains its urgency. FREE_SHARE of the link is believed all the same, because routers and telephones write such DSCPs,
too.

Reports also count packets that the host lost before the switch. That credit is bounded by CREDIT_S of the link. A port
begins again, without debt and credit, when its agents or their counters change, and when their reports are too old.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from sluice.policy.units import NS_PER_S

CLOCKS_S = 1.0
"""The store's clock differs by so much between machines."""
OLD_NS = 8 * NS_PER_S
"""A port is not judged by an older report: the web process may be down, or the machine overloaded."""
MARGIN_S = 0.25
"""So many seconds of the link are believed without an explanation, because counters are not read at one moment."""
LATE_S = 1.0
"""Open vSwitch credits packets to rules up to this late. What is under way at the beginning needs no explanation."""
FREE_SHARE = 0.01
"""Part of the link that needs no explanation."""
CREDIT_S = 10.0
"""By a report that is almost too old, a sender at the rate of its link has tagged this much more than had arrived."""


@dataclass(frozen=True)
class UrgencyReport:
    """What one agent has last reported."""

    tagged_bytes: int | None
    """Bytes that left under urgency tags since its tagger was attached. None: the agent is too old to report it."""
    pid: int
    """Of the agent: another one begins at zero."""
    counted_ns: int | None
    """A time before the count, on the controller's monotonic clock. None: the agent does not know it."""


@dataclass(frozen=True)
class Explained:
    """What the agents behind a port explain."""

    tagged_bytes: int
    source: Hashable
    """A port begins again when it changes. Empty without an agent."""
    counted_ns: int | None
    """A time before the oldest of the counts. None: one is unknown, so the port is not judged."""


NOTHING = Explained(0, (), None)
"""A port without an agent."""


def explained(reports: Mapping[str, UrgencyReport]) -> Explained:
    """Return what the reports of all agents behind one port explain, by agent."""
    source = tuple(sorted((name, report.pid) for name, report in reports.items()))
    counts = [
        (report.tagged_bytes, report.counted_ns)
        for report in reports.values()
        if report.tagged_bytes is not None and report.counted_ns is not None
    ]
    counted_ns = min(at_ns for _, at_ns in counts) if len(counts) == len(reports) else None
    return Explained(sum(count for count, _ in counts), source, counted_ns)


@dataclass(frozen=True)
class Unexplained:
    """More urgent payload has arrived at a port than deadlines explain."""

    sent_bytes: int
    limit_bytes: int
    duration_s: float


@dataclass
class UrgencyAccount:
    """The urgent payload of one edge port, and what explains it."""

    rate_bps: float
    _source: Hashable = None
    """Of the explanation. None: the account has not begun."""
    _base_bytes: float = 0.0
    """What had arrived more than was tagged when the account began, with the credit since then."""
    _began: tuple[int, int] = (0, 0)
    """Time in ns and tagged bytes at the beginning."""
    _tagged: int = 0
    _arrived: deque[tuple[int, float]] = field(default_factory=deque)
    """(time in ns, payload since the switch began to count)."""
    _judged_ns: int = 0
    """Time of the last judgement, or of the beginning."""

    def close(self) -> None:
        """Begin again with the next counters."""
        self._source = None

    def observe(self, now_ns: int, arrived_bytes: float, by: Explained) -> Unexplained | None:
        """Take the urgent payload that has arrived since the switch began to count. Returns what is not explained."""
        counted_ns = by.counted_ns if by.source else now_ns
        if counted_ns is None or now_ns - counted_ns > OLD_NS:
            self.close()
            return None
        last = self._arrived[-1][1] if self._arrived else 0.0
        if self._source != by.source or by.tagged_bytes < self._tagged or arrived_bytes < last:
            late_bytes = LATE_S * self._bytes_per_s if by.source else 0.0
            self._source, self._tagged = by.source, by.tagged_bytes
            self._base_bytes = arrived_bytes - by.tagged_bytes + late_bytes
            self._began, self._judged_ns = (now_ns, by.tagged_bytes), now_ns
            self._arrived.clear()
            self._arrived.append((now_ns, arrived_bytes))
            return None
        self._tagged = by.tagged_bytes
        self._arrived.append((now_ns, arrived_bytes))
        while len(self._arrived) > 1 and self._arrived[1][0] <= counted_ns:
            self._arrived.popleft()
        if self._arrived[0][0] > counted_ns:
            return None
        return self._judge(now_ns, self._arrived[0][1] - by.tagged_bytes)

    def _judge(self, now_ns: int, ahead_bytes: float) -> Unexplained | None:
        free_bytes = FREE_SHARE * self._bytes_per_s * (now_ns - self._judged_ns) / NS_PER_S
        credit_bytes = CREDIT_S * self._bytes_per_s if self._source else 0.0
        self._judged_ns = now_ns
        self._base_bytes = min(self._base_bytes + free_bytes, ahead_bytes + credit_bytes)
        excess = ahead_bytes - self._base_bytes
        margin = MARGIN_S * self._bytes_per_s
        if excess <= margin:
            return None
        self._base_bytes = ahead_bytes  # each byte is held against the host once
        began_ns, tagged = self._began
        told = self._tagged - tagged
        return Unexplained(round(told + excess), round(told + margin), (now_ns - began_ns) / NS_PER_S)

    @property
    def _bytes_per_s(self) -> float:
        return self.rate_bps / 8


BUDGET_S = 10.0
"""The budget holds what the share of the link carries in this time."""


@dataclass
class UrgencyBudget:
    """The urgent payload that one edge port may still send."""

    rate_bps: float
    is_spent: bool = False
    """Until half of the budget is there again, so that the rules of the port do not change with every poll."""
    _used_bytes: float = 0.0
    _latest: tuple[int, float] | None = None

    def close(self) -> None:
        """Begin again with a full budget and the next counters."""
        self.is_spent, self._used_bytes, self._latest = False, 0.0, None

    def observe(self, now_ns: int, arrived_bytes: float, share: float) -> None:
        """Take the urgent payload that has arrived since the switch began to count."""
        latest, self._latest = self._latest, (now_ns, arrived_bytes)
        if share >= 1 or latest is None or arrived_bytes < latest[1]:
            self.is_spent, self._used_bytes = False, 0.0
            return
        refill_per_s = share * self.rate_bps / 8
        size_bytes = BUDGET_S * refill_per_s
        filled = refill_per_s * (now_ns - latest[0]) / NS_PER_S
        used = max(0.0, self._used_bytes - filled) + arrived_bytes - latest[1]
        # A debt beyond one budget is forgiven: the port is never without urgency for long after it has stopped.
        self._used_bytes = min(used, 2 * size_bytes)
        self.is_spent = self._used_bytes > (size_bytes / 2 if self.is_spent else size_bytes)
