# SPDX-License-Identifier: Apache-2.0
"""How an edge port is treated, by what its host has done: suspicion is looked into, proof has a consequence.

            suspected                          proven
    free ─────────────▶ watched ─────────────────────────────▶ demoted ⟲ proven
      ◀─ WATCH_NS without suspicion ─┘ ◀─ a term without proof ─┘

Suspicion comes from the port's counters and proves nothing: many honest connections look like one that lies
(policy/tag_limits.py).
While a port is watched the switch counts its flows one by one; what one flow cannot have sent is
proof. A host that is demoted and gets little through lies little, too, so the term doubles with each offence: who lies
whenever it is let go is demoted nearly always. Good conduct for FORGET_NS wipes that out.

Pure: told the time, of any clock that does not jump.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from policy.units import NS_PER_S

WATCH_NS = 5 * NS_PER_S
FIRST_TERM_NS = 5 * NS_PER_S
LONGEST_TERM_NS = 320 * NS_PER_S
FORGET_NS = 600 * NS_PER_S


class Treatment(IntEnum):
    FREE = 0
    WATCHED = 1
    """Flows are counted one by one; packets go where they would go anyway."""
    DEMOTED = 2
    """… and all of them are background traffic."""


@dataclass(frozen=True)
class Conduct:
    """One port's. Every method returns what is true then."""

    treatment: Treatment = Treatment.FREE
    since_ns: int = 0
    """Of the last suspicion while watched, of the last proof otherwise."""
    offences: int = 0
    """How often it has been demoted, lately."""

    @property
    def term_ns(self) -> int:
        """For so long a demoted host has to behave."""
        return min(FIRST_TERM_NS << max(0, self.offences - 1), LONGEST_TERM_NS)

    @property
    def term_s(self) -> float:
        return self.term_ns / NS_PER_S

    def suspected(self, now_ns: int) -> Conduct:
        if self.treatment is Treatment.DEMOTED:
            return self
        return replace(self, treatment=Treatment.WATCHED, since_ns=now_ns)

    def released(self, now_ns: int) -> Conduct:
        """No longer watched: there are others to be watched."""
        return replace(self, treatment=Treatment.FREE, since_ns=now_ns)

    def proven(self, now_ns: int) -> Conduct:
        again = self.treatment is not Treatment.DEMOTED
        return Conduct(Treatment.DEMOTED, now_ns, self.offences + again)

    def after(self, now_ns: int) -> Conduct:
        """What the time that has passed since makes of it."""
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
        """Nobody has looked until now: a term begins anew."""
        return replace(self, since_ns=now_ns)


@dataclass(frozen=True)
class Demoted:
    """A host at an edge port has sent what cannot be true, and is background traffic now."""

    port: str
    host: str
    flow: str
    """ "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    tag: int
    sent_bytes: int
    """Payload of the flow under the tags up to this one (or under this class of known sizes)."""
    limit_bytes: int
    """What an honest flow can have sent there in that time."""
    duration_s: float
    """In which so much was sent, at most."""
    offences: int
    term_s: float
    """It is restored when nothing has been proven for so long."""
