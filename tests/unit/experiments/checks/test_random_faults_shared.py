# SPDX-License-Identifier: Apache-2.0
"""What is read from the evidence of controllers that share the switches, and that each claim can fail."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.checks.random_faults import evidence
from experiments.checks.random_faults.faults import Fault
from experiments.checks.random_faults.policies import Change
from experiments.checks.random_faults.shared_claims import shared_claims, shared_numbers
from experiments.checks.random_faults.shared_faults import KINDS, Episode
from experiments.checks.random_faults.shared_run import SharedOutcome
from experiments.checks.random_faults.wire import Event, Mastered, Written
from sluice.policy.wire.records import FINISHED, FlowRecord

A, B, C = "controller-1", "controller-2", "controller-3"
RULES = {"s1": {"priority=1 actions=drop"}}


def episode(kind: str, target: str, at: float, seconds: float) -> Episode:
    return Episode(Fault(kind, target, seconds, at), at + seconds)


def mastered(at: float, controller: str, switch: int, generation: int) -> Mastered:
    return Mastered(at, controller, switch, generation)


def written(
    at: float, controller: str, switch: int, generation: int, sent_at: float | None = None
) -> Written:
    return Written(at, controller, switch, generation, at if sent_at is None else sent_at, 1)


# -- one writer


def test_second_writes__an_order_that_goes_out_after_a_newer_master() -> None:
    before = [mastered(1.0, A, 1, 5), mastered(2.0, B, 1, 6)]
    answer_came_late = written(2.1, A, 1, 5, sent_at=1.9)
    assert evidence.second_writes([*before, answer_came_late, written(2.2, B, 1, 6)]) == []
    late = written(2.3, A, 1, 5, sent_at=2.2)
    assert evidence.second_writes([*before, late]) == [late]
    of_another_switch = written(2.3, A, 2, 5, sent_at=2.2)
    assert evidence.second_writes([*before, of_another_switch]) == []


def test_second_writes__one_that_is_no_master() -> None:
    assert evidence.second_writes([order := written(1.0, A, 1, 0)]) == [order]


def test_doubled_generations__two_controllers_in_one_generation_of_a_switch() -> None:
    events: list[Event] = [mastered(1.0, A, 1, 5), mastered(2.0, A, 1, 5), mastered(2.0, B, 2, 5)]
    assert evidence.doubled_generations(events) == []
    assert evidence.doubled_generations([*events, mastered(3.0, B, 1, 5)]) == [(1, 5)]


# -- how long it takes

FIRST = [mastered(0.0, A, 1, 1), mastered(0.0, B, 2, 1), mastered(0.0, C, 3, 1)]


@pytest.mark.parametrize(
    ("kind", "seconds", "must"),
    [
        ("kill", 0.5, True),
        ("end", 0.5, True),
        ("stop", 2.9, False),
        ("stop", 3.1, True),
        ("cut-store", 3.1, True),
        ("isolate", 3.1, True),
    ],
)
def test_takeovers__of_what_is_gone_for_long_enough(kind: str, seconds: float, must: bool) -> None:
    events = [*FIRST, mastered(12.0, B, 1, 2)]
    found = evidence.takeovers([episode(kind, A, 10.0, seconds)], events)
    assert [(one.what, one.seconds, one.judged) for one in found] == (
        [("switch 1", 2.0, True)] if must else []
    )


def test_takeovers__that_never_come_have_no_duration() -> None:
    (one,) = evidence.takeovers([episode("kill", A, 10.0, 5.0)], FIRST)
    assert (one.seconds, one.judged) == (None, True)


def test_takeovers__are_not_judged_if_another_fault_comes_first() -> None:
    faults = [episode("kill", A, 10.0, 0.5), episode("stop", B, 11.0, 4.0)]
    (late, *_) = evidence.takeovers(faults, [*FIRST, mastered(13.5, C, 1, 2)])
    assert not late.judged
    (soon, *_) = evidence.takeovers(faults, [*FIRST, mastered(10.9, C, 1, 2)])
    assert soon.judged
    of_an_agent = [faults[0], episode("kill", "agent-h1", 11.0, 0.0)]
    (late, *_) = evidence.takeovers(of_an_agent, [*FIRST, mastered(13.5, C, 1, 2)])
    assert late.judged


def test_takeovers__are_not_judged_while_switches_connect_again() -> None:
    faults = [episode("kill", "ovs-vswitchd", 5.0, 0.0), episode("kill", A, 10.0, 4.0)]
    (one,) = evidence.takeovers(faults, [*FIRST, mastered(13.5, C, 1, 2)])
    assert not one.judged


def test_returns__until_the_controller_leads_its_part_again() -> None:
    events = [*FIRST, mastered(12.0, B, 1, 2), mastered(17.5, A, 1, 3)]
    (one,) = evidence.returns([episode("kill", A, 10.0, 5.0)], events, part=1)
    assert (one.seconds, one.judged) == (2.5, True)
    (never,) = evidence.returns([episode("kill", A, 10.0, 5.0)], events, part=2)
    assert (never.seconds, never.judged) == (None, True)


# -- rules without need

FIXED, ADAPTIVE = Change(1, 0.0, adapts=False), Change(1, 0.0, adapts=True)


def test_needless_writes__each_policy_explains_one_burst_at_each_switch() -> None:
    first = [written(1.0, A, 1, 1), written(2.0, A, 1, 1), written(8.0, A, 2, 1)]
    assert evidence.needless_writes(first, [FIXED], []) == []
    later = [written(9.0, B, 1, 2), written(9.5, B, 1, 2)]
    assert evidence.needless_writes([*first, *later], [FIXED], []) == later
    again = Change(2, 8.9, adapts=False)
    assert evidence.needless_writes([*first, *later], [FIXED, again], []) == []


def test_needless_writes__rules_that_a_switch_has_lost_come_again() -> None:
    events = [written(1.0, A, 1, 1), written(22.0, A, 1, 1)]
    killed = episode("kill", "ovs-vswitchd", 20.0, 0.0)
    assert evidence.needless_writes(events, [FIXED], [killed]) == []
    assert evidence.needless_writes(events, [FIXED], [episode("kill", A, 20.0, 0.0)]) == events[1:]


def test_needless_writes__a_policy_that_adapts_may_write_at_any_time() -> None:
    events = [written(1.0, A, 1, 1), written(9.0, A, 1, 1), written(25.0, A, 1, 1)]
    assert evidence.needless_writes(events, [ADAPTIVE], []) == []
    assert evidence.needless_writes(events, [ADAPTIVE, Change(2, 8.0, adapts=False)], []) == events[2:]


# -- policies


def test_fates__applied_reported_or_neither() -> None:
    changes = [FIXED, *(Change(version, 20.0 * version, adapts=False) for version in (2, 3, 4))]
    found = evidence.fates(changes, {2: 41.0}, {3: 66.0}, [], end=120.0)
    assert [(fate.version, fate.is_known) for fate in found] == [(2, True), (3, True), (4, False)]


def test_fates__one_that_another_replaces_soon_is_not_judged() -> None:
    changes = [FIXED, Change(2, 20.0, adapts=False), Change(3, 25.0, adapts=False)]
    assert [fate.version for fate in evidence.fates(changes, {}, {}, [], end=60.0)] == [3]


def test_fates__the_time_without_a_store_does_not_count() -> None:
    changes = [FIXED, Change(2, 20.0, adapts=False)]
    cut = episode("cut-stores", "all controllers", 18.0, 8.0)
    (fate,) = evidence.fates(changes, {2: 35.0}, {}, [cut], end=60.0)
    assert (fate.limit_s, fate.is_known) == (evidence.STANDS_S + 6.0, True)


# -- the claims


def record(name: str) -> FlowRecord:
    return FlowRecord(
        name, "h1", "h2", 1, "small", 0.0, 1.0, 1.0, None, None, 0, "sluice_dctcp", "pias", FINISHED
    )


def good() -> dict[str, Any]:
    """What a run without a flaw has found: each kind of fault, and A killed with a takeover and a return."""
    others = [episode(kind, "all controllers", 200.0 + at, 0.0) for at, kind in enumerate(KINDS)]
    episodes = [episode("kill", A, 100.0, 5.0), *others]
    return {
        "controllers": 3,
        "switches": 3,
        "episodes": episodes,
        "faults": [one.fault for one in episodes],
        "events": [*FIRST, written(1.0, A, 1, 1), mastered(102.0, B, 1, 2), mastered(108.0, A, 1, 3)],
        "changes": [FIXED, Change(2, 50.0, adapts=False)],
        "applied": {2: 51.0},
        "ended_at": 300.0,
        "records": [record("a")],
        "scheduled": ["a"],
        "rules": RULES,
        "fresh": RULES,
    }


def holding(**changes: Any) -> list[bool]:
    return [claim.holds for claim in shared_claims(SharedOutcome(**{**good(), **changes}))]


def test_claims__all_hold_after_a_run_without_a_flaw() -> None:
    assert holding() == [True] * 11
    assert shared_numbers(SharedOutcome(**good()))["takeovers"][0]["seconds"] == 2.0


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {"records": []}),
        (2, {"rules": {"s1": set()}}),
        (4, {"events": [*good()["events"], written(103.0, A, 1, 1)]}),
        (4, {"events": [one for one in good()["events"] if not isinstance(one, Written)]}),
        (5, {"events": [*FIRST, written(1.0, A, 1, 1), mastered(103.5, B, 1, 2), mastered(108.0, A, 1, 3)]}),
        (6, {"events": [*FIRST, written(1.0, A, 1, 1), mastered(102.0, B, 1, 2), mastered(110.5, A, 1, 3)]}),
        (7, {"events": [*good()["events"], written(109.0, A, 1, 3), written(120.0, A, 1, 3)]}),
        (8, {"applied": {}}),
        (9, {"own_ends": 1}),
        (10, {"left": ["process controller (7)"]}),
    ],
)
def test_claims__each_fails_by_its_own_flaw(number: int, changes: dict[str, Any]) -> None:
    assert [at for at, holds in enumerate(holding(**changes)) if not holds] == [number]
