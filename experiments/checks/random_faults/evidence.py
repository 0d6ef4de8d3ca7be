# SPDX-License-Identifier: Apache-2.0
"""What the messages between controllers and switches, and the store's events, say about shared switches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from experiments.checks.random_faults.policies import Change
from experiments.checks.random_faults.shared_faults import Episode
from experiments.checks.random_faults.wire import Event, Mastered, Written

TAKE_OVER_S = 3.0
JOIN_S = 5.0
BURST_S = 2.0
"""Writes to a switch at shorter intervals have one cause."""
ADAPTED_S = 10.0
"""After a policy that adapts, its last thresholds may still be under way."""
STANDS_S = 10.0
"""From a new policy until it stands everywhere, or an event says where not. 5 s are the controllers' own limit. Another
controller may have to become the coordinator first, which begins the 5 s again."""
SETTLED_S = 10.0
"""After Open vSwitch was away, switches connect again within this time."""
ALL_SWITCHES = "ovs"
"""Faults of processes with this name hit all switches."""
QUIET_KINDS = ("link",)
"""Faults that hit no controller, and neither their connections nor their store."""


# -- one writer


def second_writes(events: Sequence[Event]) -> list[Written]:
    """Return the accepted writes that went out although the switch had confirmed a newer master, or without mastery."""
    found, newest = [], dict[int, list[tuple[float, int]]]()
    for event in events:
        if isinstance(event, Mastered):
            newest.setdefault(event.switch, []).append((event.at, event.generation))
    for event in events:
        if isinstance(event, Written):
            before = [one for at, one in newest.get(event.switch, []) if at < event.sent_at]
            if not event.generation or event.generation < max(before, default=0):
                found.append(event)
    return found


def doubled_generations(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Return (switch, generation) in whose name more than one controller has become master."""
    masters: dict[tuple[int, int], set[str]] = {}
    for event in events:
        if isinstance(event, Mastered):
            masters.setdefault((event.switch, event.generation), set()).add(event.controller)
    return [key for key, controllers in masters.items() if len(controllers) > 1]


# -- who leads


class Leaders:
    """Which controller has been master of which switch."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._changes: dict[int, list[Mastered]] = {}
        for event in events:
            if isinstance(event, Mastered):
                self._changes.setdefault(event.switch, []).append(event)

    def of(self, controller: str, at: float) -> dict[int, int]:
        """Return the switches of a controller at a time, with their generations."""
        last = (
            next((one for one in reversed(found) if one.at <= at), None) for found in self._changes.values()
        )
        return {one.switch: one.generation for one in last if one and one.controller == controller}

    def next_of(self, switch: int, generation: int) -> Mastered | None:
        """Return the first master of a switch with a greater generation."""
        return next((one for one in self._changes.get(switch, []) if one.generation > generation), None)

    def has_part_at(self, controller: str, part: int, since: float) -> float | None:
        """Return when a controller led so many switches for the first time since then."""
        if len(self.of(controller, since)) >= part:
            return since
        times = sorted(one.at for found in self._changes.values() for one in found if one.at > since)
        return next((at for at in times if len(self.of(controller, at)) >= part), None)

    def moves(self) -> Iterator[Mastered]:
        """Yield the changes of a switch's leader."""
        for found in self._changes.values():
            for before, after in pairwise(found):
                if before.controller != after.controller:
                    yield after


# -- how long it takes


@dataclass(frozen=True)
class Duration:
    """How long something has taken after a fault; None: it has not happened."""

    fault: str
    at: float
    seconds: float | None
    what: str
    judged: bool
    """False: another fault came in between."""


def takeovers(episodes: Sequence[Episode], events: Sequence[Event]) -> list[Duration]:
    """Return how long the switches of a controller that is dead, stopped or cut from the store had no other leader."""
    leaders, found = Leaders(events), []
    for number, episode in enumerate(episodes):
        fault = episode.fault
        if not _must_lose(episode):
            continue
        for switch, generation in leaders.of(episode.controller, fault.at).items():
            after = leaders.next_of(switch, generation)
            took_s = None if after is None else after.at - fault.at
            judged = _is_judged(episodes, number, fault.at, took_s, TAKE_OVER_S)
            found.append(
                Duration(f"{fault.kind} {fault.target}", fault.at, took_s, f"switch {switch}", judged)
            )
    return found


def _must_lose(episode: Episode) -> bool:
    fault = episode.fault
    if not episode.controller:
        return False
    lasted = episode.ended_at - fault.at > TAKE_OVER_S
    return fault.kind in ("kill", "end") or (fault.kind in ("stop", "cut-store", "isolate") and lasted)


def returns(episodes: Sequence[Episode], events: Sequence[Event], part: int) -> list[Duration]:
    """Return how long controllers that come back need for a part of so many switches."""
    leaders, found = Leaders(events), []
    for number, episode in enumerate(episodes):
        if not _must_lose(episode):
            continue
        at = leaders.has_part_at(episode.controller, part, episode.ended_at)
        took_s = None if at is None else at - episode.ended_at
        judged = _is_judged(episodes, number, episode.ended_at, took_s, JOIN_S)
        name = f"{episode.fault.kind} {episode.fault.target}"
        found.append(Duration(name, episode.ended_at, took_s, f"{part} switches", judged))
    return found


def _is_judged(
    episodes: Sequence[Episode], number: int, since: float, took_s: float | None, limit_s: float
) -> bool:
    """Whether no other fault came before it had happened, or before its limit."""
    return _is_alone(episodes, number, since, since + min(limit_s, took_s if took_s is not None else limit_s))


def _is_alone(episodes: Sequence[Episode], number: int, since: float, until: float) -> bool:
    """Whether no other fault overlaps this time that hits controllers, or switches that are not back yet."""
    for at, other in enumerate(episodes):
        if at == number or other.fault.kind in QUIET_KINDS:
            continue
        of_switches = ALL_SWITCHES in other.fault.target
        hits = of_switches or other.controller or other.fault.kind == "cut-stores"
        if hits and other.fault.at < until and other.ended_at + SETTLED_S * of_switches > since:
            return False
    return True


# -- rules that were written without need


def needless_writes(
    events: Sequence[Event], changes: Sequence[Change], episodes: Sequence[Episode]
) -> list[Written]:
    """Return the writes that neither a new policy nor lost rules explain, while the policy does not adapt.

    Each cause explains one burst of writes at each switch.
    """
    causes = sorted([change.at for change in changes] + list(_rules_lost(episodes)))
    needless, last = [], dict[int, tuple[float, bool]]()
    for event in sorted((e for e in events if isinstance(e, Written)), key=lambda e: e.at):
        before_at, explained = last.get(event.switch, (float("-inf"), False))
        if any(before_at < cause <= event.at for cause in causes):
            explained = True
        elif event.at - before_at >= BURST_S:
            explained = False
        last[event.switch] = event.at, explained
        if not explained and is_fixed(changes, event.at):
            needless.append(event)
    return needless


def _rules_lost(episodes: Sequence[Episode]) -> Iterator[float]:
    """Yield the times when all switches begin without rules."""
    for episode in episodes:
        if ALL_SWITCHES in episode.fault.target:
            yield episode.ended_at


def is_fixed(changes: Sequence[Change], at: float) -> bool:
    """Whether no policy that adapts has been in force for some time."""
    ends = [change.at for change in changes[1:]] + [float("inf")]
    return not any(
        change.adapts and change.at <= at < end + ADAPTED_S for change, end in zip(changes, ends, strict=True)
    )


# -- policies


@dataclass(frozen=True)
class Fate:
    """What has become of a policy that stayed the newest for long enough."""

    version: int
    applied_s: float | None
    """From the change until all switches had it, by the coordinator; None: never."""
    reported_s: float | None
    """Until an event named the switches that lacked it; None: no event."""
    limit_s: float

    @property
    def is_known(self) -> bool:
        return any(found is not None and found <= self.limit_s for found in (self.applied_s, self.reported_s))


def fates(
    changes: Sequence[Change],
    applied: Mapping[int, float],
    reported: Mapping[int, float],
    episodes: Sequence[Episode],
    end: float,
) -> list[Fate]:
    """`applied`, `reported`: version → when; `end`: of the run. Time without the store does not count."""
    ends = [*(change.at for change in changes[1:]), end]
    found = []
    for change, until in list(zip(changes, ends, strict=True))[1:]:
        limit_s = STANDS_S + _without_store(episodes, change.at, change.at + STANDS_S)
        if until - change.at >= limit_s:
            times = [
                one[change.version] - change.at if change.version in one else None
                for one in (applied, reported)
            ]
            found.append(Fate(change.version, times[0], times[1], limit_s))
    return found


def _without_store(episodes: Sequence[Episode], since: float, until: float) -> float:
    """Return how long a cut of all controllers from the store has lasted that overlaps a time."""
    return sum(
        one.ended_at - max(one.fault.at, since)
        for one in episodes
        if one.fault.kind == "cut-stores" and one.fault.at < until and one.ended_at > since
    )
