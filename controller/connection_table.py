# SPDX-License-Identifier: Apache-2.0
"""Two connections that say that they are the same switch: one of them has come back, or there are two switches.

The established one is asked for a sign of life. If it gives one, there are two live switches with one datapath id, and
it stays: replacing it would make it come back and replace the other, for ever. If it gives none in time, it is what is
left of a connection that the switch has lost, and the newcomer takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

PROBE_S = 1.5


class Contender(Protocol):
    @property
    def heard_at(self) -> float:
        """When it last said something, by the monotonic clock."""

    def ask_for_life(self) -> None: ...


C = TypeVar("C", bound=Contender)


@dataclass(frozen=True)
class Contest(Generic[C]):
    established: C
    newcomer: C
    began_at: float

    @classmethod
    def begin(cls, established: C, newcomer: C, now: float) -> Contest[C]:
        established.ask_for_life()
        return cls(established, newcomer, now)

    def verdict(self, now: float) -> C | None:
        """Who stays; None while that is open."""
        if self.established.heard_at > self.began_at:
            return self.established
        return self.newcomer if now - self.began_at > PROBE_S else None
