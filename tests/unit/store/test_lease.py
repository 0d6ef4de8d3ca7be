# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sluice.store import lease, observed
from sluice.store.engine import open_store
from tests.kit.known import known


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    engine = lease.open_for_leases(store_url)
    yield engine
    engine.dispose()


def test_the_first_to_come_has_it_and_nobody_else(engine: Engine) -> None:
    assert lease.look(engine, "work") is None
    mine = known(lease.take(engine, "work", "a", None))
    assert mine == lease.look(engine, "work")
    assert lease.take(engine, "work", "b", None) is None
    assert known(lease.look(engine, "work")).holder == "a"


def test_every_holder_has_a_greater_generation_than_those_before(engine: Engine) -> None:
    first = known(lease.take(engine, "work", "a", None))
    second = known(lease.take(engine, "work", "b", first))
    third = known(lease.take(engine, "work", "a", second))
    assert first.generation < second.generation < third.generation


def test_a_generation_begins_beyond_those_of_stores_made_before(engine: Engine) -> None:
    """Switches remember generations, so a new store must not begin below them."""
    assert known(lease.take(engine, "work", "a", None)).generation > 1_700_000_000


def test_a_holder_that_is_one_no_more_renews_nothing(engine: Engine) -> None:
    before = known(lease.take(engine, "work", "a", None))
    taken = known(lease.take(engine, "work", "b", before))
    assert lease.renew(engine, before) is None
    lease.release(engine, before)
    assert lease.look(engine, "work") == taken


def test_a_lease_that_was_renewed_meanwhile_cannot_be_taken(engine: Engine) -> None:
    seen = known(lease.take(engine, "work", "a", None))
    renewed = lease.renew(engine, seen)
    assert lease.take(engine, "work", "b", seen) is None
    assert lease.look(engine, "work") == renewed


def test_a_released_lease_is_nobodys_and_keeps_its_generation(engine: Engine) -> None:
    mine = known(lease.take(engine, "work", "a", None))
    lease.release(engine, mine)
    found = known(lease.look(engine, "work"))
    assert (found.holder, found.generation) == (lease.NOBODY, mine.generation)


def test_of_many_who_reach_for_it_at_once_one_gets_it(store_url: str, engine: Engine) -> None:
    seen = known(lease.take(engine, "work", "before", None))
    got, together = [], threading.Barrier(8)

    def reach(name: str) -> None:
        own = lease.open_for_leases(store_url)
        together.wait()
        got.append(lease.take(own, "work", name, seen))
        own.dispose()

    threads = [threading.Thread(target=reach, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [taken for taken in got if taken is not None]
    assert lease.look(engine, "work") == winner


def test_fenced__nobody_takes_the_lease_during_a_transaction_in_its_name(
    engine: Engine, store_url: str
) -> None:
    store = open_store(store_url)
    mine = known(lease.take(engine, "work", "a", None))
    with (
        lease.fenced(store, "work", mine.generation).begin(),
        pytest.raises(OperationalError, match=r"lock|timeout"),
    ):
        lease.take(engine, "work", "b", mine)
    assert lease.take(engine, "work", "b", mine) is not None
    store.dispose()


def test_fenced__a_transaction_of_a_former_holder_writes_nothing(engine: Engine, store_url: str) -> None:
    store = open_store(store_url)
    mine = known(lease.take(engine, "work", "a", None))
    former = lease.fenced(store, "work", mine.generation)
    observed.add_event(former, "early")
    lease.take(engine, "work", "b", mine)
    with pytest.raises(lease.Deposed, match=rf"generation {mine.generation + 1}.*{mine.generation}"):
        observed.add_event(former, "late")
    observed.add_event(store, "not fenced")
    assert [event["kind"] for event in observed.recent_events(store, 0)] == ["early", "not fenced"]
    store.dispose()
