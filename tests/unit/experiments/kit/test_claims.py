# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from experiments.kit.claims import all_finished, all_valid, at_most, below_one, lower, noted, within
from experiments.kit.paired import Changes, Difference
from experiments.kit.runs import Runs
from tests.kit.finished_runs import run_of


def change(mean: float) -> Difference:
    return Difference(mean, mean - 0.01, mean + 0.01, 5, 0.0)


def test_at_most__nowhere_above_the_limit_and_once_down_to_it() -> None:
    assert at_most("x", "p", {0.5: 0.9, 0.8: 0.5}, 1.0, once=0.6).holds
    assert not at_most("x", "p", {0.5: 0.9, 0.8: 0.7}, 1.0, once=0.6).holds
    assert not at_most("x", "p", {0.5: 1.1, 0.8: 0.5}, 1.0, once=0.6).holds


def test_below_one__equal_is_not_lower() -> None:
    assert below_one("x", {0.5: 0.99}).holds
    assert not below_one("x", {0.5: 0.9, 0.8: 1.0}).holds


def test_lower__not_by_chance_and_at_every_load() -> None:
    assert lower("x", "p", change(-0.02)).holds
    assert not lower("x", "p", change(-0.005)).holds
    assert not lower("x", "p", Changes({0.5: change(-0.02), 0.8: change(-0.005)})).holds


def test_within__either_way() -> None:
    assert within("x", "p", change(-0.03), 0.03).holds
    assert not within("x", "p", change(0.031), 0.03).holds


def test_noted__holds_whatever_it_is() -> None:
    assert noted("x", "7").holds


def test_all_valid__an_invalid_run_and_an_unfinished_flow_are_told_apart() -> None:
    good, bad, slow = run_of("a"), run_of("a", valid=False), run_of("a", unfinished=3)
    assert [claim.holds for claim in all_valid(Runs([good]))] == [True, True]
    assert [claim.holds for claim in all_valid(Runs([good, bad]))] == [False, True]
    assert [claim.holds for claim in all_valid(Runs([slow]))] == [True, False]
    assert all_finished(Runs([slow])).measured == "3"
