# SPDX-License-Identifier: Apache-2.0
"""The treatment of an edge port, which follows from its host's tags. Suspicion starts a check; a
proof demotes the host.

            suspected                          proven
    free ─────────────▶ watched ─────────────────────────────▶ demoted ⟲ proven
      ◀─ WATCH_NS without suspicion ─┘ ◀─ a term without proof ─┘

Suspicion comes from the port's counters and proves nothing: many flows with correct tags can look
like one with wrong tags (policy/tag_limits.py). While a port is watched, the switch counts its
flows one by one. If one flow sent more than its tags allow, that is proof.

A demoted host gets little bandwidth, so it also sends few wrong tags. Therefore the term doubles
with each offence. A host that sends wrong tags whenever it is restored is demoted nearly always.
Correct tags for FORGET_NS reset the term.

Pure: the time is an argument, of any clock that does not jump.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from sluice.policy.units import NS_PER_S

WATCH_NS = 5 * NS_PER_S
FIRST_TERM_NS = 5 * NS_PER_S
LONGEST_TERM_NS = 320 * NS_PER_S
FORGET_NS = 600 * NS_PER_S


class Treatment(Enum):
    FREE = auto()
    WATCHED = auto()
    """The switch counts its flows one by one. Its packets go to their usual queues."""
    DEMOTED = auto()
    """As WATCHED, and all packets are background traffic, with a limit on their rate."""


@dataclass(frozen=True)
class Conduct:
    """The state of one port. Every method returns the state that follows."""

    treatment: Treatment = Treatment.FREE
    since_ns: int = 0
    """Time of the last suspicion while watched, otherwise of the last proof."""
    offences: int = 0
    """Number of demotions since the last reset."""

    @property
    def term_ns(self) -> int:
        """How long a demoted host must send correct tags before it is restored."""
        return min(FIRST_TERM_NS << max(0, self.offences - 1), LONGEST_TERM_NS)

    @property
    def term_s(self) -> float:
        return self.term_ns / NS_PER_S

    def suspected(self, now_ns: int) -> Conduct:
        if self.treatment is Treatment.DEMOTED:
            return self
        return replace(self, treatment=Treatment.WATCHED, since_ns=now_ns)

    def released(self, now_ns: int) -> Conduct:
        """Return the state of a port that is no longer watched, because others must be watched."""
        return replace(self, treatment=Treatment.FREE, since_ns=now_ns)

    def proven(self, now_ns: int) -> Conduct:
        again = self.treatment is not Treatment.DEMOTED
        return Conduct(Treatment.DEMOTED, now_ns, self.offences + again)

    def after(self, now_ns: int) -> Conduct:
        """Return the state after the time since the last event."""
        quiet_ns = now_ns - self.since_ns
        match self.treatment:
            case Treatment.DEMOTED if quiet_ns >= self.term_ns:
                return replace(self, treatment=Treatment.WATCHED, since_ns=now_ns)
            case Treatment.WATCHED if quiet_ns >= WATCH_NS:
                return replace(self, treatment=Treatment.FREE, since_ns=now_ns)
            case Treatment.FREE if self.offences and quiet_ns >= FORGET_NS:
                return Conduct()
            case _:
                return self

    def resumed(self, now_ns: int) -> Conduct:
        """Return the state after a pause in which no check ran: the term starts again."""
        return replace(self, since_ns=now_ns)


@dataclass(frozen=True)
class Demoted:
    """The demotion of a host: it sent more than its tags allow, and is background traffic now."""

    port: str
    host: str
    flow: str
    """For example "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    tag: int
    sent_bytes: int
    """Payload of the flow under the tags up to this one, or under this class of known sizes."""
    limit_bytes: int
    """The most that a flow with correct tags can send in that time."""
    duration_s: float
    """Upper bound of the time in which the flow sent this much."""
    offences: int
    term_s: float
    """The host is restored after this time without a new proof."""
    rate_bps: int | None = None
    """The most that the host may send. None: its switch or the policy sets no limit."""
