# SPDX-License-Identifier: Apache-2.0
"""The one live connection of each datapath id, and what happens when a second one claims that id.

Either the switch has connected again, or two switches have the same datapath id. The table probes
the established connection. If that answers, there are two live switches, and the established
connection stays. Otherwise, two switches would replace each other without end. If it does not answer
in time, the switch has lost it, and the new connection replaces it.

Pure: the caller passes the time, and carries out the decisions.
"""

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

PROBE_S = 1.5


class Contender(Protocol):
    """A connection, as far as the table needs it."""

    @property
    def heard_at_s(self) -> float:
        """When the last message arrived, by the monotonic clock."""

    def probe(self) -> None:
        """Make the peer answer if it is alive."""


C = TypeVar("C", bound=Contender)


@dataclass(frozen=True)
class Admitted(Generic[C]):
    """The connection represents its datapath id from now on."""

    connection: C


@dataclass(frozen=True)
class Refused(Generic[C]):
    """Another live switch has the datapath id of the newcomer."""

    established: C
    newcomer: C


@dataclass(frozen=True)
class Lost(Generic[C]):
    """The connection no longer represents its datapath id."""

    connection: C
    silent: bool
    """It has not answered the probe. False: it has ended by itself."""


Decision: TypeAlias = Admitted[C] | Refused[C] | Lost[C]


@dataclass(frozen=True)
class _Contest(Generic[C]):
    established: C
    newcomer: C
    began_s: float

    def winner(self, now_s: float) -> C | None:
        """Return the connection that stays; None while that is open."""
        if self.established.heard_at_s > self.began_s:
            return self.established
        return self.newcomer if now_s - self.began_s > PROBE_S else None


@dataclass
class ConnectionTable(Generic[C]):
    _established: dict[int, C] = field(default_factory=dict)
    _contests: dict[int, _Contest[C]] = field(default_factory=dict)

    def items(self) -> list[tuple[int, C]]:
        """Return (datapath id, connection) of the established connections."""
        return list(self._established.items())

    def established(self, dpid: int) -> C | None:
        """Return the connection that represents a datapath id."""
        return self._established.get(dpid)

    def connected(self, dpid: int, connection: C, now_s: float) -> list[Decision[C]]:
        """A switch has finished its handshake."""
        established = self._established.get(dpid)
        if established is None:
            return [self._admit(dpid, connection)]
        if dpid in self._contests:
            return [Refused(established, connection)]
        established.probe()
        self._contests[dpid] = _Contest(established, connection, now_s)
        return []

    def settle(self, now_s: float) -> list[Decision[C]]:
        """Time has passed: decide the contests that can be decided."""
        decisions: list[Decision[C]] = []
        for dpid, contest in list(self._contests.items()):
            winner = contest.winner(now_s)
            if winner is None:
                continue
            del self._contests[dpid]
            if winner is contest.established:
                decisions.append(Refused(contest.established, contest.newcomer))
            else:
                decisions.append(Lost(contest.established, silent=True))
                decisions.append(self._admit(dpid, contest.newcomer))
        return decisions

    def ended(self, dpid: int, connection: C) -> list[Decision[C]]:
        """A connection has ended, established or not."""
        contest = self._contests.get(dpid)
        if contest is not None and contest.newcomer is connection:
            del self._contests[dpid]
            return []
        if self._established.get(dpid) is not connection:
            return []
        del self._established[dpid]
        decisions: list[Decision[C]] = [Lost(connection, silent=False)]
        if contest is not None:
            del self._contests[dpid]
            decisions.append(self._admit(dpid, contest.newcomer))
        return decisions

    def _admit(self, dpid: int, connection: C) -> Admitted[C]:
        self._established[dpid] = connection
        return Admitted(connection)
