# SPDX-License-Identifier: Apache-2.0
"""Shares of several controllers, without threads and switches: members step, pause and die in any order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from sluice.controller.leadership import FRESH_NS, LEASE_S, LOOK_S, RECONNECT_S, RETAKE_S, Candidacy
from sluice.controller.membership import Membership, fair_parts
from sluice.store import lease, parts
from sluice.store.parts import LEASE, NETWORK

SWITCHES = frozenset(range(1, 8))
ALL = SWITCHES | {NETWORK}
FRESH_S = FRESH_NS / 1e9


# ── The plan ───────────────────────────────────────────────────────────────────────────────────

names = st.sampled_from("abcde")


@given(st.sets(st.integers(1, 40)), st.dictionaries(st.integers(1, 40), names), st.sets(names, min_size=1))
def test_fair_parts__numbers_differ_by_one_at_most_and_the_fewest_switches_move(
    switches: set[int], holders: dict[int, str], members: set[str]
) -> None:
    plan = fair_parts(switches, holders, members)
    assert plan.keys() == switches
    counts = {name: sum(holder == name for holder in plan.values()) for name in members}
    assert max(counts.values()) - min(counts.values()) <= 1
    held = {name: sum(holders.get(switch) == name for switch in switches) for name in members}
    kept = sum(plan[switch] == holders.get(switch) for switch in switches)
    assert kept == sum(min(held[name], counts[name]) for name in members)
    # No fair numbers would let more switches stay.
    least, more = divmod(len(switches), len(members))
    excess = sorted((held[name] > least for name in members), reverse=True)
    assert kept == sum(min(count, least) for count in held.values()) + sum(excess[:more])


@given(st.sets(st.integers(1, 40), min_size=1), st.sets(names, min_size=1, max_size=4))
def test_fair_parts__a_member_that_joins_gets_its_part_and_no_other_switch_moves(
    switches: set[int], members: set[str]
) -> None:
    before = fair_parts(switches, {}, members)
    after = fair_parts(switches, before, members | {"new"})
    assert {after[switch] for switch in switches if after[switch] != before[switch]} <= {"new"}
    assert sum(name == "new" for name in after.values()) >= len(switches) // (len(members) + 1)


@given(st.sets(st.integers(1, 40), min_size=1), st.sets(names, min_size=2))
def test_fair_parts__when_a_member_dies_only_its_switches_move(switches: set[int], members: set[str]) -> None:
    before = fair_parts(switches, {}, members)
    dead = min(members)
    after = fair_parts(switches, before, members - {dead})
    assert all(after[switch] == before[switch] for switch in switches if before[switch] != dead)


@given(st.dictionaries(st.integers(1, 40), names), st.sets(names, min_size=1))
def test_fair_parts__all_members_hold_what_the_plan_says_once_it_is_done(
    holders: dict[int, str], members: set[str]
) -> None:
    """A plan that is carried out changes nothing more."""
    plan = fair_parts(holders, holders, members)
    assert fair_parts(holders, plan, members) == plan


def test_fair_parts__the_coordinator_stays_as_long_as_it_lives() -> None:
    assert fair_parts(ALL, {NETWORK: "b"}, {"a", "b"})[NETWORK] == "b"
    assert fair_parts(ALL, {NETWORK: "b"}, {"a", "c"})[NETWORK] == "a"


# ── Members ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    engine = lease.open_for_leases(store_url)
    yield engine
    engine.dispose()


class Fleet:
    """Controllers, and a clock that all of them read. Each drops what it must give up some steps later."""

    def __init__(self, engine: Engine, drop_after: int = 1) -> None:
        self.engine, self.now_s, self._drop_after = engine, 0.0, drop_after
        self.members: dict[str, Membership] = {}
        self.ended: set[str] = set()
        self.wanted: frozenset[int] = ALL
        self._looked_s: dict[str, float] = {}
        self._acting: dict[str, dict[int, int]] = {}
        self._waits: dict[tuple[str, int], int] = {}
        self._generations: dict[int, list[int]] = {}

    def join(self, name: str) -> None:
        self.members[name] = Membership(name, ended=lambda other: other in self.ended)

    def step(self, name: str) -> None:
        member, began_s = self.members[name], self.now_s
        member.step(self.engine, self.wanted, began_s)
        self._looked_s[name] = began_s
        share = member.share
        self._acting[name] = {**share.held}
        for part, generation in share.leaving.items():
            self._waits[name, part] = self._waits.get((name, part), 0) + 1
            if self._waits[name, part] > self._drop_after:
                member.dropped(part, generation)
                del self._waits[name, part]
            else:
                self._acting[name][part] = generation
        self.check()

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.check()

    def acting(self, name: str) -> dict[int, int]:
        """Return the parts on which a member may act now, with their generations."""
        fresh = self.now_s - self._looked_s.get(name, float("-inf")) < FRESH_S
        return self._acting.get(name, {}) if fresh and name not in self.ended else {}

    def check(self) -> None:
        """No two may act on one part, and its generation only grows."""
        acting = [part for name in self.members for part in self.acting(name)]
        assert len(acting) == len(set(acting)), {name: self.acting(name) for name in self.members}
        for part, row in parts.look(self.engine).parts.items():
            seen = self._generations.setdefault(part, [])
            if row.generation not in seen[-1:]:
                seen.append(row.generation)
            assert all(before < after for before, after in pairwise(seen))

    def settle(self, *alive: str) -> None:
        for _ in range(40):
            for name in alive:
                self.pass_time(LOOK_S / len(alive))
                self.step(name)

    def holds(self, name: str) -> set[int]:
        return set(self.acting(name)) - {NETWORK}


@pytest.fixture
def fleet(engine: Engine) -> Fleet:
    fleet = Fleet(engine)
    for name in "ab":
        fleet.join(name)
    fleet.settle("a", "b")
    return fleet


def test_two_share_all_switches_and_one_coordinates(fleet: Fleet) -> None:
    a, b = fleet.holds("a"), fleet.holds("b")
    assert a | b == SWITCHES
    assert a.isdisjoint(b)
    assert sorted((len(a), len(b))) == [3, 4]
    assert [NETWORK in fleet.acting(name) for name in "ab"].count(True) == 1


def test_a_third_gets_its_part_and_the_others_keep_the_rest_in_the_same_generation(fleet: Fleet) -> None:
    before = {name: fleet.acting(name) for name in "ab"}
    fleet.join("c")
    fleet.settle("a", "b", "c")
    assert len(fleet.holds("c")) == 2
    for name in "ab":
        assert fleet.acting(name).items() <= before[name].items()


def test_parts_of_a_silent_member_are_taken_after_the_lease_and_no_others_move(fleet: Fleet) -> None:
    before, lost = fleet.acting("a"), fleet.holds("b")
    until_s = fleet.now_s + LEASE_S
    while fleet.now_s < until_s - LOOK_S:
        fleet.pass_time(LOOK_S / 2)
        fleet.step("a")
        assert fleet.holds("a").isdisjoint(lost)
    for _ in range(8):
        fleet.pass_time(LOOK_S / 2)
        fleet.step("a")
    assert fleet.holds("a") == SWITCHES
    assert before.items() <= fleet.acting("a").items()


def test_a_silent_member_that_comes_back_has_lost_its_part_and_gets_a_new_one(fleet: Fleet) -> None:
    before = fleet.acting("b")
    fleet.settle("a")
    fleet.step("b")
    assert fleet.holds("b") == set()
    fleet.settle("a", "b")
    after = fleet.acting("b")
    assert len(fleet.holds("b")) == 3
    assert all(after[part] > before[part] for part in after.keys() & before.keys())


def test_a_member_whose_process_has_ended_is_not_waited_for(fleet: Fleet) -> None:
    fleet.ended.add("b")
    fleet.pass_time(LOOK_S)
    fleet.step("a")
    assert fleet.holds("a") == SWITCHES


def test_a_member_that_leaves_frees_its_part_at_once(fleet: Fleet) -> None:
    fleet.members["b"].release(fleet.engine)
    fleet.ended.add("b")
    fleet.step("a")
    assert fleet.holds("a") == SWITCHES


def test_the_last_member_that_leaves_gives_the_lease_up(fleet: Fleet) -> None:
    for member in fleet.members.values():
        member.release(fleet.engine)
    row = lease.look(fleet.engine, LEASE)
    assert row is not None
    assert row.holder == lease.NOBODY


def test_a_part_that_is_not_dropped_stays_with_its_holder(engine: Engine) -> None:
    fleet = Fleet(engine, drop_after=10**9)
    fleet.join("a")
    fleet.settle("a")
    fleet.join("b")
    fleet.settle("a", "b")
    assert fleet.acting("a").keys() == ALL
    assert fleet.acting("b") == {}


def test_switches_that_are_gone_are_given_up(fleet: Fleet) -> None:
    fleet.wanted = frozenset({1, 2, NETWORK})
    fleet.settle("a", "b")
    assert fleet.holds("a") | fleet.holds("b") == {1, 2}
    assert len(fleet.holds("a")) == 1


def test_a_doubted_switch_gets_a_new_generation_but_not_too_often(fleet: Fleet) -> None:
    member, switch = fleet.members["a"], min(fleet.holds("a"))
    generations = []
    for _ in range(20):
        member.doubt(switch)
        fleet.pass_time(1.0)
        fleet.step("b")
        fleet.step("a")
        generations.append(fleet.acting("a")[switch])
    assert generations == sorted(generations)
    assert 2 <= len(set(generations)) <= 20 / RETAKE_S + 1


# ── Beside a controller that does not share ────────────────────────────────────────────────────


def test_one_that_leads_all_switches_and_those_that_share_wait_for_each_other(engine: Engine) -> None:
    alone = Candidacy("alone", ended=lambda _: False)
    alone.step(engine, 0.0)
    fleet = Fleet(engine)
    fleet.join("a")
    for i in range(20):
        alone.step(engine, i * LOOK_S)
        fleet.step("a")
        fleet.pass_time(LOOK_S)
    assert fleet.acting("a") == {}
    alone.release(engine)
    fleet.settle("a")
    assert fleet.holds("a") == SWITCHES
    assert min(fleet.acting("a").values()) > alone.generation
    for _ in range(20):
        fleet.pass_time(LOOK_S)
        fleet.step("a")
        alone.step(engine, fleet.now_s)
    assert not alone.leads
    newest = max(fleet.acting("a").values())
    fleet.pass_time(LEASE_S)
    alone.step(engine, fleet.now_s)
    assert alone.leads
    assert alone.generation > newest
    fleet.step("a")
    assert fleet.acting("a") == {}


def test_without_a_network_to_share_all_leave_and_one_can_lead(fleet: Fleet) -> None:
    fleet.wanted = frozenset()
    for _ in range(10):
        for name, member in fleet.members.items():
            fleet.pass_time(LOOK_S)
            if member.is_member:
                fleet.step(name)
    assert not any(member.is_member for member in fleet.members.values())
    alone = Candidacy("a", ended=lambda _: False)
    alone.step(fleet.engine, fleet.now_s)
    assert alone.leads


# ── Any order ──────────────────────────────────────────────────────────────────────────────────

step = st.tuples(st.just("step"), st.sampled_from("abc"))
passing = st.tuples(st.just("pass"), st.sampled_from([0.05, 0.2, 0.7, 1.6, 2.5]))
death = st.tuples(st.just("die"), st.sampled_from("abc"))
network = st.tuples(st.just("network"), st.sampled_from([ALL, frozenset({1, 2, NETWORK})]))


@settings(max_examples=60)
@given(
    st.lists(st.one_of(step, step, step, passing, death, network), max_size=60),
    st.integers(0, 3),
    st.booleans(),
)
def test_in_any_order_no_two_act_on_one_switch_and_all_are_taken_in_the_end(
    actions: list[tuple[str, object]], drop_after: int, knows_deaths: bool
) -> None:
    engine = lease.open_for_leases("sqlite://")
    fleet = Fleet(engine, drop_after)
    dead: set[str] = set()
    for name in "abc":
        fleet.join(name)
    for action, what in actions:
        match action, what:
            case "step", str(name) if name not in dead:
                fleet.step(name)
            case "pass", float(seconds):
                fleet.pass_time(seconds)
            case "die", str(name) if len(dead) < 2:
                dead.add(name)
                if knows_deaths:
                    fleet.ended.add(name)
            case "network", frozenset() as wanted:
                fleet.wanted = wanted
    alive = [name for name in "abc" if name not in dead]
    fleet.settle(*alive)
    held = [fleet.holds(name) for name in alive]
    assert set.union(*held) == fleet.wanted - {NETWORK}
    sizes = [len(each) for each in held]
    assert max(sizes) - min(sizes) <= 1
    assert sum(NETWORK in fleet.acting(name) for name in alive) == 1
    engine.dispose()


def test_the_time_of_an_outage_is_no_silence_of_the_other_members(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One member reaches the store again before the other one does. No switch moves."""
    before = fleet.acting("a"), fleet.acting("b")
    with monkeypatch.context() as patch:
        patch.setattr(parts, "beat", _no_store)
        for _ in range(20):
            fleet.pass_time(LEASE_S / 4)
            for name in "ab":
                with pytest.raises(Away):
                    fleet.members[name].step(fleet.engine, ALL, fleet.now_s)
    for _ in range(int(RECONNECT_S / LOOK_S)):
        fleet.step("a")
        fleet.pass_time(LOOK_S)
    fleet.settle("a", "b")
    assert (fleet.acting("a"), fleet.acting("b")) == before


class Away(Exception):
    """The store cannot be reached."""


def _no_store(*_: object) -> bool:
    raise Away


def test_a_member_that_died_during_an_outage_is_replaced_afterwards(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(parts, "beat", _no_store)
        with pytest.raises(Away):
            fleet.members["a"].step(fleet.engine, ALL, fleet.now_s)
        fleet.pass_time(10.0)
    fleet.settle("a")
    assert fleet.holds("a") == SWITCHES
