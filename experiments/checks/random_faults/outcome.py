# SPDX-License-Identifier: Apache-2.0
"""What random faults have done, what was observed, and the claims that hold for one controller and for several."""

from __future__ import annotations

import collections
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.checks.random_faults.faults import KINDS, Fault
from experiments.kit.machine import nothing_left
from experiments.kit.port_gaps import Gap
from experiments.kit.verdict import Claim
from sluice.policy.wire.records import FINISHED, FlowRecord

GAP_S = 1.0
EXCUSED_S = 5.0
"""Time after a fault that stops packets by itself, because a switch restarts and TCP backs off."""


@dataclass
class Outcome:
    """What was done, and what was observed."""

    faults: list[Fault] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    """Gaps in the traffic of the busy port."""
    blind_s: float = 0.0
    """The longest time between two readings of the busy port."""
    records: list[FlowRecord] = field(default_factory=list)
    scheduled: list[str] = field(default_factory=list)
    """Ids of the flows."""
    rules: dict[str, set[str]] = field(default_factory=dict)
    """Switch → its rules after all faults."""
    fresh: dict[str, set[str]] = field(default_factory=dict)
    """The rules that a new controller installs on empty switches."""
    left: list[str] = field(default_factory=list)
    """What the run left behind on the machine."""


def claims(outcome: Outcome, kinds: Collection[str] = frozenset(KINDS)) -> list[Claim]:
    counted = collections.Counter(fault.kind for fault in outcome.faults)
    words = ", ".join(f"{n} {kind}" for kind, n in counted.items())
    gaps = unexcused(outcome.gaps, outcome.faults)
    longest_s = max((gap.length_s for gap in gaps), default=0.0)
    return [
        Claim("faults", "of each kind", words, set(counted) == set(kinds)),
        _one_record_each(outcome),
        _same_rules(outcome),
        Claim(
            "a fault of the control plane stops traffic",
            f"for {GAP_S:g} s at most",
            f"{longest_s * 1000:.0f} ms at most",
            longest_s <= GAP_S,
        ),
        nothing_left(outcome.left),
    ]


def _one_record_each(outcome: Outcome) -> Claim:
    counted = collections.Counter(record.id for record in outcome.records)
    lost, doubled = set(outcome.scheduled) - set(counted), [i for i, n in counted.items() if n > 1]
    measured = f"{len(lost)} lost, {len(doubled)} doubled of {len(outcome.scheduled)}"
    what = "every flow has one record"
    return Claim(what, "none lost, none doubled", measured, not lost and not doubled)


def _same_rules(outcome: Outcome) -> Claim:
    wrong = [rule for name in outcome.rules for rule in outcome.rules[name] ^ outcome.fresh[name]]
    rules = sum(map(len, outcome.fresh.values()))
    measured = f"{len(wrong)} differ of {rules}"
    what = "rules afterwards"
    return Claim(what, "those of a fresh controller", measured, rules > 0 and not wrong)


def unexcused(gaps: Sequence[Gap], faults: Sequence[Fault]) -> list[Gap]:
    """Return the gaps that begin outside the time of a fault that stops packets by itself."""
    return [gap for gap in gaps if not any(_excuses(fault, gap) for fault in faults)]


def _excuses(fault: Fault, gap: Gap) -> bool:
    began_at = gap.ended_at - gap.length_s
    return (
        fault.stops_packets and gap.ended_at >= fault.at and began_at <= fault.at + fault.seconds + EXCUSED_S
    )


def numbers(outcome: Outcome) -> dict[str, Any]:
    gaps = sorted(unexcused(outcome.gaps, outcome.faults), key=lambda gap: -gap.length_s)
    return {
        "faults": [[f.kind, f.target, round(f.seconds, 2), round(f.at, 2)] for f in outcome.faults],
        "flows": len(outcome.scheduled),
        "finished": sum(record.status == FINISHED for record in outcome.records),
        "longest_gaps": [_described(gap, outcome.faults) for gap in gaps[:20]],
        "longest_without_look_ms": outcome.blind_s * 1000,
    }


def _described(gap: Gap, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return a gap, the fault before it, and the time between the two."""
    began_at = gap.ended_at - gap.length_s
    before = [fault for fault in faults if fault.at <= gap.ended_at]
    described: dict[str, Any] = {"ms": round(gap.length_s * 1000)}
    if before:
        last = before[-1]
        described |= {
            "fault": f"{last.kind} {last.target}",
            "begins_s_after_it": round(began_at - last.at, 2),
        }
        described |= {"fault_lasts_s": round(last.seconds, 2)}
    return described
