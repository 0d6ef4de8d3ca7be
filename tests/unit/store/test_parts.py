# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import OperationalError

from sluice.store import lease, observed, parts
from sluice.store.engine import open_store
from sluice.store.lease import NOBODY, SHARED, Lease
from sluice.store.parts import LEASE, Part
from sluice.store.schema import leases

ALL = {1: None, 2: None}


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    engine = lease.open_for_leases(store_url)
    yield engine
    engine.dispose()


@pytest.fixture
def shared(engine: Engine) -> Lease:
    """The lease, which "a" and "b" hold together."""
    taken = lease.take(engine, LEASE, SHARED, None)
    assert taken is not None
    assert parts.beat(engine, "a")
    assert parts.beat(engine, "b")
    return taken


@pytest.fixture
def store(store_url: str) -> Iterator[Engine]:
    store = open_store(store_url)
    yield store
    store.dispose()


def held(engine: Engine) -> dict[int, Part]:
    return dict(parts.look(engine).parts)


def test_beat__has_no_effect_while_one_holds_the_lease(engine: Engine) -> None:
    assert not parts.beat(engine, "a")
    lease.take(engine, LEASE, "alone", None)
    assert not parts.beat(engine, "a")
    assert parts.look(engine).beats == {}


@pytest.mark.usefixtures("shared")
def test_beat__counts(engine: Engine) -> None:
    for _ in range(3):
        parts.beat(engine, "a")
    assert parts.look(engine).beats == {"a": 3, "b": 0}


@pytest.mark.pg
@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("shared")
def test_beat__waits_for_no_lock_on_the_lease(engine: Engine, store: Engine) -> None:
    with store.begin() as connection:
        connection.execute(update(leases).values(beat=leases.c.beat))
        assert parts.beat(engine, "a")
    assert parts.look(engine).beats == {"a": 1, "b": 0}


def test_renew__shows_those_who_do_not_share_that_somebody_lives_once_for_all_members(
    engine: Engine, shared: Lease
) -> None:
    assert parts.look(engine).lease_beat == shared.beat
    for _ in range(2):
        parts.renew(engine, shared.beat)
    after = lease.look(engine, LEASE)
    assert after == Lease(LEASE, SHARED, shared.generation, shared.beat + 1)


def test_take__each_gets_a_generation_that_nobody_had(engine: Engine, shared: Lease) -> None:
    parts.take(engine, "a", ALL)
    first = held(engine)
    assert {row.holder for row in first.values()} == {"a"}
    assert {row.generation for row in first.values()} == {shared.generation + 1}
    parts.release(engine, "a", [2])
    assert held(engine)[2] == Part(NOBODY, shared.generation + 1)
    parts.take(engine, "b", {2: held(engine)[2]})
    assert held(engine)[2] == Part("b", shared.generation + 2)
    assert held(engine)[1] == first[1]


@pytest.mark.usefixtures("shared")
def test_take__not_from_a_member_and_not_if_the_row_has_changed(engine: Engine) -> None:
    parts.take(engine, "a", ALL)
    before = held(engine)
    parts.take(engine, "b", before)
    assert held(engine) == before
    parts.take(engine, "b", ALL)  # read before "a" took them
    assert held(engine) == before
    parts.bury(engine, "a", parts.look(engine).beats["a"] - 1)  # it has given a sign meanwhile
    parts.take(engine, "b", before)
    assert held(engine) == before
    parts.bury(engine, "a", parts.look(engine).beats["a"])
    parts.take(engine, "b", before)
    assert {row.holder for row in held(engine).values()} == {"b"}


@pytest.mark.usefixtures("shared")
def test_leave__frees_the_own_parts_and_the_last_one_the_lease(engine: Engine) -> None:
    parts.take(engine, "a", {1: None})
    parts.take(engine, "b", {2: None})
    parts.leave(engine, "a")
    assert {part: row.holder for part, row in held(engine).items()} == {1: NOBODY, 2: "b"}
    found = lease.look(engine, LEASE)
    assert found is not None
    assert found.holder == SHARED
    parts.leave(engine, "b")
    found = lease.look(engine, LEASE)
    assert found is not None
    assert found.holder == NOBODY


@pytest.mark.usefixtures("shared")
def test_fenced__nobody_takes_a_part_during_a_transaction_in_its_name(engine: Engine, store: Engine) -> None:
    parts.take(engine, "a", ALL)
    mine = held(engine)
    parts.leave(engine, "a")
    with (
        parts.fenced(store, {1: mine[1].generation}).begin(),
        pytest.raises(OperationalError, match=r"lock|timeout"),
    ):
        parts.take(engine, "b", held(engine))
    parts.take(engine, "b", held(engine))
    assert held(engine)[1].holder == "b"


@pytest.mark.usefixtures("shared")
def test_fenced__a_former_holder_of_one_of_several_parts_writes_nothing(
    engine: Engine, store: Engine
) -> None:
    parts.take(engine, "a", ALL)
    mine = {part: row.generation for part, row in held(engine).items()}
    former = parts.fenced(store, mine)
    observed.add_event(former, "early")
    parts.release(engine, "a", [2])
    observed.add_event(former, "not taken yet")
    parts.take(engine, "b", {2: held(engine)[2]})
    with pytest.raises(lease.Deposed, match=r"have taken \[2\]"):
        observed.add_event(former, "late")
    observed.add_event(parts.fenced(store, {1: mine[1]}), "of the other part")
    kinds = [event["kind"] for event in observed.recent_events(store, 0)]
    assert kinds == ["early", "not taken yet", "of the other part"]


def test_fenced__one_who_takes_the_lease_alone_has_a_greater_generation_and_ends_all_parts(
    engine: Engine, store: Engine, shared: Lease
) -> None:
    parts.take(engine, "a", ALL)
    mine = {part: row.generation for part, row in held(engine).items()}
    seen = lease.look(engine, LEASE)
    assert lease.take(engine, LEASE, "alone", shared) is None, "the lease has changed since"
    alone = lease.take(engine, LEASE, "alone", seen)
    assert alone is not None
    assert alone.generation > max(mine.values())
    assert set(held(engine).values()) == {Part(NOBODY, alone.generation)}
    with pytest.raises(lease.Deposed):
        observed.add_event(parts.fenced(store, mine), "late")
    assert not parts.beat(engine, "a")
