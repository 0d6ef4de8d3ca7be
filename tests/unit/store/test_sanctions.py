# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine

from sluice.store.observed import (
    Sanction,
    all_sanctions,
    demotions,
    forget_processes,
    lift_all_but,
    lift_sanctions,
    put_sanction,
)

FIRST = Sanction("s1:2", "h2", "TCP a > b", 1, 2_000_000, 500_000, 0.95, 1, 5.0, since=100.0)
SECOND = replace(FIRST, port="s2:1", host="h9", since=101.0)


def test_put__one_row_a_port(engine: Engine) -> None:
    put_sanction(engine, SECOND)
    put_sanction(engine, FIRST)
    put_sanction(engine, replace(FIRST, offences=2))
    assert all_sanctions(engine) == [replace(FIRST, offences=2), SECOND]


def test_demotions__differ_when_a_host_is_demoted_again_or_restored(engine: Engine) -> None:
    assert demotions(engine) == frozenset()
    put_sanction(engine, FIRST)
    assert demotions(engine) == {("s1:2", 100.0)}
    put_sanction(engine, replace(FIRST, offences=2, since=102.0))
    assert demotions(engine) == {("s1:2", 102.0)}
    lift_sanctions(engine, ["s1:2"])
    assert demotions(engine) == frozenset()


def test_lift__is_final_and_may_be_said_twice(engine: Engine) -> None:
    put_sanction(engine, FIRST)
    lift_sanctions(engine, ["s1:2"])
    lift_sanctions(engine, ["s1:2"])
    assert all_sanctions(engine) == []


def test_lift_all_but__ports_that_are_demoted_stay(engine: Engine) -> None:
    put_sanction(engine, FIRST)
    put_sanction(engine, SECOND)
    lift_all_but(engine, ["s2:1"])
    assert all_sanctions(engine) == [SECOND]
    lift_all_but(engine, [])
    assert all_sanctions(engine) == []


def test_an_earlier_runs_are_forgotten_with_its_processes(engine: Engine) -> None:
    put_sanction(engine, FIRST)
    forget_processes(engine)
    assert all_sanctions(engine) == []
