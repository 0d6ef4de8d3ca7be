# SPDX-License-Identifier: Apache-2.0
"""What must hold for controllers that share the switches."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from experiments.checks.random_faults import evidence, outcome
from experiments.checks.random_faults.evidence import JOIN_S, TAKE_OVER_S, Duration, Fate
from experiments.checks.random_faults.shared_faults import KINDS
from experiments.checks.random_faults.shared_run import SharedOutcome
from experiments.checks.random_faults.wire import Denied, Written
from experiments.kit.verdict import Claim


def shared_claims(found: SharedOutcome) -> list[Claim]:
    *common, left = outcome.claims(found, KINDS)
    return [
        *common,
        _one_writer(found),
        _soon("switches have another leader", _takeovers(found), TAKE_OVER_S),
        _soon("a controller that comes back has its part", _returns(found), JOIN_S),
        _untouched(found),
        _policies(found),
        Claim(
            "controllers end or hang by themselves", "never", f"{found.own_ends} times", not found.own_ends
        ),
        left,
    ]


def _takeovers(found: SharedOutcome) -> list[Duration]:
    return evidence.takeovers(found.episodes, found.events)


def _returns(found: SharedOutcome) -> list[Duration]:
    return evidence.returns(found.episodes, found.events, found.switches // found.controllers)


def _one_writer(found: SharedOutcome) -> Claim:
    writes = [event for event in found.events if isinstance(event, Written)]
    denied = sum(isinstance(event, Denied) for event in found.events)
    second, doubled = evidence.second_writes(found.events), evidence.doubled_generations(found.events)
    measured = (
        f"{len(second)} of {len(writes)} writes by another, {len(doubled)} generations of two controllers"
    )
    measured += f"; switches refused {denied} late orders"
    return Claim(
        "a switch accepts writes",
        "of its newest master alone",
        measured,
        bool(writes) and not second + doubled,
    )


def _soon(what: str, durations: Sequence[Duration], limit_s: float) -> Claim:
    judged = [one for one in durations if one.judged]
    late = [one for one in judged if one.seconds is None or one.seconds > limit_s]
    measured = f"{len(late)} late of {len(judged)}; {_spread(judged)}"
    return Claim(what, f"within {limit_s:g} s", measured, bool(judged) and not late)


def _spread(durations: Sequence[Duration]) -> str:
    known = [one.seconds for one in durations if one.seconds is not None]
    if not known:
        return "none"
    return f"median {statistics.median(known):.2f} s, longest {max(known):.2f} s"


def _untouched(found: SharedOutcome) -> Claim:
    needless = evidence.needless_writes(found.events, found.changes, found.episodes)
    moves = [
        one for one in evidence.Leaders(found.events).moves() if evidence.is_fixed(found.changes, one.at)
    ]
    measured = f"{sum(one.changes for one in needless)} by {len(moves)} changes of a leader"
    return Claim("rules written without need", "none", measured, bool(moves) and not needless)


def _fates(found: SharedOutcome) -> list[Fate]:
    return evidence.fates(found.changes, found.applied, found.late, found.episodes, found.ended_at)


def _policies(found: SharedOutcome) -> Claim:
    fates = _fates(found)
    unknown = [fate for fate in fates if not fate.is_known]
    reported = sum(fate.reported_s is not None for fate in fates)
    measured = f"{len(unknown)} of {len(fates)} neither; {reported} reported as late"
    what = "a policy stands everywhere or is reported where not"
    return Claim(what, "every one", measured, bool(fates) and not unknown)


def shared_numbers(found: SharedOutcome) -> dict[str, Any]:
    return {
        **outcome.numbers(found),
        "takeovers": [asdict(one) for one in _takeovers(found)],
        "returns": [asdict(one) for one in _returns(found)],
        "policies": [asdict(fate) for fate in _fates(found)],
        "needless_writes": [
            asdict(one) for one in evidence.needless_writes(found.events, found.changes, found.episodes)
        ],
        "second_writes": [asdict(one) for one in evidence.second_writes(found.events)],
        "events": [[type(event).__name__, *asdict(event).values()] for event in found.events],
        "changes": [asdict(change) for change in found.changes],
    }
