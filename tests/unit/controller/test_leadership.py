# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import OperationalError

from sluice.controller import leadership as lead
from sluice.controller.leadership import LEASE_S, NAME, RECONNECT_S, Candidacy, Leadership, LeaseStatus
from sluice.runtime.wait import wait_until
from sluice.store import lease
from sluice.store.lease import Lease
from sluice.store.schema import leases


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    engine = lease.open_for_leases(store_url)
    yield engine
    engine.dispose()


def found(engine: Engine) -> Lease:
    row = lease.look(engine, NAME)
    assert row is not None
    return row


def candidate(name: str) -> Candidacy:
    """Return a candidate that takes every other process for alive."""
    return Candidacy(name, ended=lambda _: False)


def test_the_second_follows_as_long_as_the_first_renews(engine: Engine) -> None:
    """Each candidate measures by its own clock how long the row has not changed."""
    first, second = candidate("a"), candidate("b")
    for i in range(40):
        first.step(engine, i * 0.4)
        second.step(engine, 1e9 + i * 0.4)
    assert (first.leads, second.leads) == (True, False)
    assert second.generation == first.generation


def test_a_holder_that_does_not_renew_is_replaced_by_the_next_generation_and_notices(engine: Engine) -> None:
    first, second = candidate("a"), candidate("b")
    first.step(engine, 0.0)
    second.step(engine, 0.2)
    second.step(engine, 0.2 + LEASE_S - 0.01)
    assert not second.leads
    second.step(engine, 0.2 + LEASE_S)
    assert second.leads
    before = first.generation
    first.step(engine, 10.0)
    assert not first.leads
    assert first.generation == second.generation > before


def test_a_holder_whose_process_has_ended_is_not_waited_for(engine: Engine) -> None:
    candidate("a").step(engine, 0.0)
    second = Candidacy("b", ended=lambda holder: holder == "a")
    second.step(engine, 0.1)
    assert second.leads


def test_a_lease_that_was_given_back_is_taken_at_once(engine: Engine) -> None:
    first, second = candidate("a"), candidate("b")
    first.step(engine, 0.0)
    second.step(engine, 0.1)
    before = first.generation
    first.release(engine)
    second.step(engine, 0.3)
    assert second.leads
    assert second.generation == before + 1


def test_a_disputed_holder_takes_a_new_generation_if_the_lease_is_its_own_but_not_too_often(
    engine: Engine,
) -> None:
    """The switch may have seen generations of another store."""
    only = candidate("a")
    only.step(engine, 0.0)
    generations = []
    for i in range(20):
        only.is_disputed = True
        only.step(engine, i * 1.0)
        generations.append(only.generation)
    assert generations == sorted(generations)
    assert 2 <= len(set(generations)) <= 20 / lead.RETAKE_S + 1
    assert only.leads


def test_a_disputed_holder_follows_if_another_one_has_the_lease(engine: Engine) -> None:
    first, second = candidate("a"), candidate("b")
    first.step(engine, 0.0)
    second._mine = lease.take(engine, NAME, "b", lease.look(engine, NAME))
    first.is_disputed = True
    first.step(engine, 0.1)
    assert not first.leads
    assert second.leads


def test_lease_status__is_fresh_for_less_than_the_lease_lasts() -> None:
    status = LeaseStatus(True, 1, 0)
    assert status.is_fresh(lead.FRESH_NS - 1)
    assert not status.is_fresh(lead.FRESH_NS)
    assert lead.FRESH_NS < LEASE_S * 1e9


def test_a_leader_goes_on_while_the_store_is_away_and_a_follower_does_not_begin(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other controller can take the lease.

    If one can, the switches refuse the former leader.
    """
    reported: list[LeaseStatus] = []
    leadership = Leadership(store_url, reported.append)

    def away(*_: object) -> None:
        raise OperationalError("select", {}, Exception("database is locked"))

    with monkeypatch.context() as broken:
        broken.setattr(lease, "look", away)
        leadership._look()
    assert not reported[-1].leads
    leadership._look()
    assert reported[-1].leads
    with monkeypatch.context() as broken:
        broken.setattr(lease, "renew", away)
        leadership._look()
    assert reported[-1].leads
    assert reported[-1].at_ns > reported[-2].at_ns
    leadership._give_back()


def test_the_thread_leads_renews_and_gives_the_lease_back_when_it_stops(
    store_url: str, engine: Engine
) -> None:
    reported: list[LeaseStatus] = []
    leadership = Leadership(store_url, reported.append)
    leadership.start()
    wait_until(lambda: reported and reported[-1].leads, "it leads")
    beat = found(engine).beat
    wait_until(lambda: found(engine).beat > beat, "it renews")
    leadership.stop(5.0)
    assert found(engine).holder == lease.NOBODY


@pytest.mark.pg
@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_a_busy_store_is_asked_again_over_the_same_connection(
    store_url: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """New connections would make it busier."""
    reported: list[LeaseStatus] = []
    leadership = Leadership(store_url, reported.append)
    leadership._look()
    own = leadership._engine
    with engine.begin() as connection:
        connection.execute(update(leases).values(beat=leases.c.beat))
        leadership._look()
    assert "statement timeout" in caplog.text
    assert leadership._engine is own
    beat = found(engine).beat
    leadership._look()
    assert found(engine).beat == beat + 1
    leadership._give_back()


class Away(Exception):
    """The store cannot be reached."""


@contextmanager
def outage(monkeypatch: pytest.MonkeyPatch, module: ModuleType, *names: str) -> Iterator[None]:
    def fail(*_: object) -> None:
        raise Away

    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(module, name, fail)
        yield


def test_the_time_of_an_outage_is_no_silence_of_the_leader(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower reaches the store before the leader does."""
    first, second = candidate("a"), candidate("b")
    first.step(engine, 0.0)
    second.step(engine, 0.1)
    with outage(monkeypatch, lease, "look"):
        for at_s in (0.3, 5.0, 10.0):
            with pytest.raises(Away):
                second.step(engine, at_s)
    for at_s in (11.0, 11.0 + RECONNECT_S, 11.0 + RECONNECT_S + LEASE_S - 0.01):
        second.step(engine, at_s)
        assert not second.leads
    second.step(engine, 11.0 + RECONNECT_S + LEASE_S)
    assert second.leads
