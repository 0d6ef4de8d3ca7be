# SPDX-License-Identifier: Apache-2.0
"""Which switches each of several controllers leads: fair parts, and how a switch passes from one to another.

    free ──the plan names this member──▶ held ──the plan names another──▶ leaving ──dropped──▶ free
    held by a member that is silent for LEASE_S, or whose process has ended ──▶ free

Every member computes the same plan from the rows (`fair_parts`), and takes only what is free. A member that must give a
switch up first stops to act, then writes its last rows of the switch, and then frees the part. So the next holder reads
from the store what the switch has.

A silent member acts no longer when the others take its parts, because FRESH_NS is less than LEASE_S (leadership.py).
Only the monotonic clock counts. Without a thread: the caller of `step` passes the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import islice

from sqlalchemy import Engine

from sluice.controller.leadership import LEASE_S, LOOK_S, RETAKE_S, Candidacy, Outages, Share
from sluice.runtime.identity import has_ended
from sluice.store import parts
from sluice.store.lease import SHARED
from sluice.store.parts import NETWORK, Part, Sharing


def fair_parts(
    wanted: Collection[int], holders: Mapping[int, str], members: Collection[str]
) -> Mapping[int, str]:
    """Return the member that leads each part: numbers of switches differ by one at most, and the fewest switches move.

    `wanted`: all parts. `holders`: who holds them now; one that is not among `members` counts as none. The coordinator
    stays as long as it lives.
    """
    switches = sorted(part for part in wanted if part != NETWORK)
    held = {name: [part for part in switches if holders.get(part) == name] for name in members}
    ranks = sorted(members, key=lambda name: (-len(held[name]), name))
    least, more = divmod(len(switches), len(ranks))
    plan: dict[int, str] = {}
    for rank, name in enumerate(ranks):
        plan.update(dict.fromkeys(held[name][: least + (rank < more)], name))
    rest = iter([part for part in switches if part not in plan])
    for rank, name in enumerate(ranks):
        room = least + (rank < more) - len(held[name])
        plan.update(dict.fromkeys(islice(rest, max(0, room)), name))
    if NETWORK in wanted:
        coordinator = holders.get(NETWORK, "")
        plan[NETWORK] = coordinator if coordinator in members else min(members)
    return plan


class Membership:
    """One controller's share."""

    def __init__(self, me: str, ended: Callable[[str], bool] = has_ended) -> None:
        """`ended` says whether the process of a member has certainly ended."""
        self._me, self._ended = me, ended
        self._entrance = Candidacy(SHARED, ended)
        self.is_member = False
        self._heard: dict[str, tuple[int, float]] = {}
        """Member → its beat, and when that was seen to change; after an outage, the time from which silence counts."""
        self._outages = Outages()
        self._lease = (-1, 0.0)
        """The beat of the lease, and when that was seen to change."""
        self._held: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._known: dict[int, int] = {}
        self._newest = 0
        self._dropped: deque[tuple[int, int]] = deque()
        self._doubted: deque[int] = deque()
        self._retaken_at_s: dict[int, float] = {}

    @property
    def share(self) -> Share:
        kept = {part: generation for part, generation in self._held.items() if part not in self._leaving}
        leaving = {part: self._held[part] for part in self._leaving}
        return Share(kept, leaving, self._known, self._since)

    @property
    def generation(self) -> int:
        """The newest in which this member has taken anything; before that, of the lease."""
        return self._newest or self._entrance.generation

    def dropped(self, part: int, generation: int) -> None:
        """This controller acts no longer on a part that it must give up, and has written its rows. Any thread."""
        self._dropped.append((part, generation))

    def doubt(self, switch: int) -> None:
        """A switch has reported another master. Any thread."""
        self._doubted.append(switch)

    def step(self, engine: Engine, wanted: Collection[int], now_s: float) -> None:
        """Give a sign of life, free what is dropped, and take what is free. Raises SQLAlchemyError without a store.

        `wanted`: all parts; none if the switches must not be shared. A member leaves once it holds nothing then.
        """
        self._outages.attempt(now_s)
        self.is_member = parts.beat(engine, self._me)
        if not self.is_member:
            self._note(Sharing({}, {}), now_s)
            self._enter(engine, now_s)
            return
        found = self._note(parts.look(engine), now_s)
        self._renew(engine, found.lease_beat, now_s)
        if not wanted and not self._held:
            self._leave(engine)
            return
        members = self._living(engine, found, now_s)
        holders = {part: row.holder for part, row in found.parts.items()}
        plan = fair_parts(wanted, holders, members)
        self._leaving |= {part for part in self._held if plan.get(part) != self._me}
        freed, taken = self._freed(), self._to_take(found, plan, members) | self._to_retake(found, now_s)
        if freed:
            parts.release(engine, self._me, freed)
        if taken:
            parts.take(engine, self._me, taken)
        if freed or taken:
            self._note(parts.look(engine), now_s)

    def release(self, engine: Engine) -> None:
        """Give everything up at once: this controller acts no longer."""
        if self.is_member:
            self._leave(engine)

    def _enter(self, engine: Engine, now_s: float) -> None:
        """Take the lease for all that share, if it is free. From the next step on, their beats renew it."""
        if self._entrance.leads:  # it was lost meanwhile
            self._entrance = Candidacy(SHARED, self._ended)
        self._entrance.step(engine, now_s)

    def _leave(self, engine: Engine) -> None:
        parts.leave(engine, self._me)
        self.is_member = False
        self._note(Sharing({}, {}), 0.0)

    def _renew(self, engine: Engine, lease_beat: int, now_s: float) -> None:
        """Renew the lease, unless another member has done so lately."""
        if lease_beat != self._lease[0]:
            self._lease = lease_beat, now_s
        elif now_s - self._lease[1] >= 2 * LOOK_S:
            parts.renew(engine, lease_beat)

    def _note(self, found: Sharing, now_s: float) -> Sharing:
        before, least_s = self._heard, self._outages.looked(now_s)
        self._heard = {}
        for name, count in found.beats.items():
            same = name in before and before[name][0] == count
            self._heard[name] = count, max(before[name][1] if same else now_s, least_s)
        held = {part: row.generation for part, row in found.parts.items() if row.holder == self._me}
        # Every step looks before it takes. So a part that was held at the last look, too, was never another one's.
        self._since = {part: self._since[part] if part in self._held else held[part] for part in held}
        self._held = held
        self._leaving &= self._held.keys()
        self._known = {part: row.generation for part, row in found.parts.items()}
        self._newest = max(self._newest, *self._held.values(), 0)
        return found

    def _living(self, engine: Engine, found: Sharing, now_s: float) -> set[str]:
        living = {self._me}
        for name, (count, since_s) in list(self._heard.items()):
            if name == self._me or not (now_s - since_s >= LEASE_S or self._ended(name)):
                living.add(name)
            else:
                parts.bury(engine, name, count)
                del self._heard[name]  # one that comes back may begin with the same count
        return living

    def _freed(self) -> set[int]:
        freed = set()
        while self._dropped:
            part, generation = self._dropped.popleft()
            if part in self._leaving and self._held[part] == generation:
                freed.add(part)
        return freed

    def _to_take(
        self, found: Sharing, plan: Mapping[int, str], members: Collection[str]
    ) -> dict[int, Part | None]:
        """Return the parts that the plan gives to this member and that are free, as they were read."""
        mine = {part: found.parts.get(part) for part, name in plan.items() if name == self._me}
        return {part: row for part, row in mine.items() if row is None or row.holder not in members}

    def _to_retake(self, found: Sharing, now_s: float) -> dict[int, Part | None]:
        """Return the own switches that may have seen a greater generation, of another store."""
        again: dict[int, Part | None] = {}
        while self._doubted:
            switch = self._doubted.popleft()
            last_s = self._retaken_at_s.get(switch, float("-inf"))
            if switch in self._held and switch not in self._leaving and now_s - last_s >= RETAKE_S:
                self._retaken_at_s[switch] = now_s
                again[switch] = found.parts[switch]
        return again
