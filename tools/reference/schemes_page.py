# SPDX-License-Identifier: Apache-2.0
"""docs/reference/schemes.md: what each scheme is made of."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from sluice.policy import controls
from sluice.policy.controls import CONTROLS
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schemes import SCHEMES, Marking, Scheme, ThresholdRule
from sluice.policy.schemes.queues import QueueRule
from sluice.policy.units import format_bytes
from tools.reference.markdown import code, page, table

_INTRODUCTION = """\
A scheme is a composition: a congestion control for the hosts, and thresholds, queues and marking for the ports. Each
one is a record in `policy/schemes/table.py`. [How to add a scheme](../how-to/add-a-scheme.md) shows the steps."""

_TAGS = """\
Hosts write only what the scheme's queues read. With **urgency**, the packets of a deadline flow carry its urgency
instead of the bytes sent, from `urgent_after` on. With **size class**, the packets of a flow of known size carry its
class. [The tag](../explanation/tag.md) has the numbers."""

_RULES: dict[ThresholdRule, str] = {
    ThresholdRule.NONE: "The scheme has no demotion thresholds.",
    ThresholdRule.STATIC: "The policy gives the thresholds. They are the same at every port.",
    ThresholdRule.PERCENTILE: "Each port takes percentiles of the flow sizes that completed there in a sliding window.",
    ThresholdRule.ONLINE: "Each port finds the thresholds of least mean slowdown for the flows that it has seen.",
}

_QUEUES: dict[QueueRule, str] = {
    QueueRule.SINGLE: "One queue for all packets.",
    QueueRule.SHORTEST_FIRST: "The flow with the fewest bytes left is served first.",
    QueueRule.BY_SIZE: "One queue for each class of known sizes. Flows of unknown size share the last queue.",
    QueueRule.MLFQ: "Multi-level feedback: a flow moves one queue down with each threshold that it passes.",
    QueueRule.SIEVE: "Deadline flows have queue 0. Below it, known sizes go by size, other flows by bytes sent.",
    QueueRule.TWO_LEVEL: "2LPS: pairs of queues. The first of a pair is by bytes sent, the second by urgency.",
    QueueRule.MERGED: "As MLFQ. Deadline flows and flows of known size are among the same levels.",
}

_MARKS: dict[Marking, str] = {
    Marking.NONE: "The port marks nothing.",
    Marking.PORT: "The port marks when its backlog exceeds K (`mark_at`).",
    Marking.RED: "The port marks by chance. The probability is 0 up to `mark_min`, grows linearly, and is 1 above"
    " `mark_max`.",
    Marking.PHANTOM: "The port marks when its phantom queue exceeds `mark_at`.",
}

_CONTROLS = """\
An agent selects the control by its kernel name. Where the kernel cannot load BPF congestion controls (struct_ops), the
agent selects the fallback, and the run is marked as not valid."""


def text() -> str:
    """The page."""
    return page(
        "Schemes",
        "For people who choose a scheme, and for developers who want to know what one is made of.",
        _INTRODUCTION,
        table(
            ("scheme", "from", "congestion control", "thresholds", "queues", "marking", "tags", "runs on"),
            map(_row, SCHEMES.values()),
        ),
        _TAGS,
        "## Threshold rules",
        _words("rule", _RULES),
        "## Queue rules",
        _words("rule", {rule.label: what for rule, what in _QUEUES.items()}),
        "`policy/schemes/queues.py` has the whole table from tags to queues.",
        "## Marking",
        _words("marking", _MARKS),
        "## Defaults that differ",
        _defaults(),
        "## Congestion controls",
        _CONTROLS,
        table(("kernel name", "echo of marks", "fallback", "law"), map(_control, CONTROLS)),
        "## What each scheme is",
        *(f"**`{scheme.name}`**: {scheme.about}" for scheme in SCHEMES.values()),
    )


def _row(scheme: Scheme) -> list[str]:
    tags = [*(["urgency"] if scheme.tags_deadlines else []), *(["size class"] if scheme.tags_sizes else [])]
    return [
        code(scheme.name),
        scheme.paper,
        code(scheme.congestion_control),
        _rule(scheme),
        _queues(scheme),
        scheme.marking.value,
        " and ".join(tags) or ("bytes sent" if scheme.queue_rule.reads_tags else "–"),
        SIMULATOR if scheme.simulator_only else f"{TESTBED}, {SIMULATOR}",
    ]


def _rule(scheme: Scheme) -> str:
    return "–" if scheme.threshold_rule is ThresholdRule.NONE else scheme.threshold_rule.value


def _queues(scheme: Scheme) -> str:
    more = [*(["flow queues"] if scheme.flow_queues else []), *(["shares"] if scheme.least_share else [])]
    return ", ".join([f"{scheme.queues}, {scheme.queue_rule.label}", *more])


def _words(heading: str, meanings: dict[ThresholdRule, str] | dict[Marking, str] | dict[str, str]) -> str:
    rows = [(code(_label(word)), meaning) for word, meaning in meanings.items()]
    return table((heading, "meaning"), rows)


def _label(word: str | Enum) -> str:
    return str(word.value) if isinstance(word, Enum) else word


def _defaults() -> str:
    rows = [
        (
            code(scheme.name),
            _sizes(scheme.thresholds_bytes),
            _sizes(scheme.marks_bytes),
            f"{scheme.least_share:.0%}" if scheme.least_share else "–",
            format_bytes(scheme.urgent_after_bytes) if scheme.tags_deadlines else "–",
        )
        for scheme in SCHEMES.values()
    ]
    headings = ("scheme", "thresholds", "marks at", "least share of each lower queue", "urgent after")
    return table(headings, rows)


def _sizes(values: Iterable[int]) -> str:
    return ", ".join(format_bytes(value) for value in values) or "–"


def _control(control: controls.Control) -> list[str]:
    law = f"dataplane/laws/{control.name}.h" if control.is_ours else ""
    fallback = control.fallback if control.is_ours else ""
    return [code(control.kernel_name), control.echo.value, code(fallback) or "–", code(law) or "–"]
