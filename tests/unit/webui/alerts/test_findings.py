# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from sluice.policy.alert_rules import DEFAULT_RULES, AlertRule, Figure
from sluice.policy.figures.validity import FORWARDED, Flaw
from sluice.policy.wire.records import FlowRecord
from sluice.store.flow_columns import FlowColumns
from sluice.store.observed import AgentRow
from sluice.webui.alerts.findings import findings, flow_finding
from tests.kit.heartbeats import host_heartbeat
from tests.unit.webui.records import record

NOW = 1_700_000_000.0
MISSES = AlertRule("m", Figure.MISSES, 0.05, least_flows=20)


def columns(*documents: dict[str, object]) -> FlowColumns:
    """Return flows as the store does: (sequence, received_at, started_at, fct, ideal, class, scheme, met, source)."""
    records = [FlowRecord.from_document(document) for document in documents]
    return FlowColumns.from_rows(
        [
            (
                i,
                NOW - 1,
                r.started_at,
                r.fct_us,
                r.ideal_us,
                r.size_class,
                r.scheme,
                r.met,
                r.source,
            )
            for i, r in enumerate(records)
        ]
    )


def flows(count: int, ago_s: float = 5.0, **changes: Any) -> list[dict[str, object]]:
    begun = {"started_at": NOW - ago_s, "fct_us": 2_000.0}
    return [
        record(f"f{ago_s}-{changes}-{i}"[:90].translate(_PLAIN), **(begun | changes)) for i in range(count)
    ]


_PLAIN = str.maketrans(dict.fromkeys(" {}':,", "-"))
LATE: dict[str, Any] = {"deadline_us": 1_000.0, "met": False}
MET: dict[str, Any] = {"deadline_us": 9_000.0, "met": True}


@pytest.mark.parametrize(("missed", "above"), [(5, False), (6, True), (100, True), (0, False)])
def test_misses__above_the_limit(missed: int, above: bool) -> None:
    found = flow_finding(MISSES, columns(*flows(missed, **LATE), *flows(100 - missed, **MET), *flows(50)))
    assert (found.above, found.value, found.flows) == (above, missed / 100, 100)
    assert (
        f"missed by {missed} % of 100 flows with a deadline in the last 60 s; the limit is 5 %"
        in found.reason
    )
    assert found.remedy


def test_misses__too_few_flows_do_not_count() -> None:
    found = flow_finding(MISSES, columns(*flows(19, **LATE)))
    assert not found.above
    assert found.flows == 19
    assert "19 flows with a deadline ended in the last 60 s: too few, 20 are needed" in found.reason
    assert flow_finding(MISSES, columns(*flows(20, **LATE))).above


def test_misses__an_unfinished_flow_with_a_deadline_has_missed_it() -> None:
    open_flow: dict[str, Any] = {"fct_us": None, "status": "unfinished", **LATE}
    assert flow_finding(MISSES, columns(*flows(20, **open_flow))).value == 1.0


def test_fct_and_slowdown__of_one_class() -> None:
    slow, fast = flows(300, fct_us=80_000.0), flows(900, size_class="large", bytes=20_000_000, fct_us=1e3)
    rule = AlertRule("f", Figure.FCT, "50ms", size_class="small", least_flows=300)
    found = flow_finding(rule, columns(*slow, *fast))
    assert (found.above, found.flows) == (True, 300)
    assert (
        "the p99 of the FCT is 80 ms of 300 small flows in the last 60 s; the limit is 50 ms" in found.reason
    )
    assert not flow_finding(replace(rule, size_class="large"), columns(*slow, *fast)).above
    assert not flow_finding(replace(rule, limit="80ms"), columns(*slow, *fast)).above
    slowed = AlertRule("s", Figure.SLOWDOWN, 88, size_class="small", least_flows=300)
    assert flow_finding(slowed, columns(*slow, *fast)).above  # 80 ms over 900 us
    assert not flow_finding(replace(slowed, limit=89), columns(*slow, *fast)).above


def test_findings__each_rule_has_its_window_and_source() -> None:
    rules = [
        replace(MISSES, name="short", window_s=10.0),
        replace(MISSES, name="long", window_s=100.0),
        replace(MISSES, name="watched", source="watched"),
    ]
    asked = []

    def since(at: float) -> FlowColumns:
        asked.append(at)
        return columns(*flows(30, ago_s=50.0, **LATE))

    found = {one.rule.name: one for one in findings(rules, since, [], [], now=NOW, age_s=0.0)}
    assert asked == [NOW - 100]
    assert (found["short"].flows, found["long"].flows, found["watched"].flows) == (0, 30, 0)
    assert (found["short"].above, found["long"].above) == (False, True)


def test_findings__no_flows_are_read_if_no_rule_needs_them() -> None:
    def since(at: float) -> FlowColumns:
        raise AssertionError("read")

    assert findings([AlertRule("a", Figure.AGENT)], since, [], [], now=NOW, age_s=0.0) == []


def test_agents__one_alert_for_each() -> None:
    agents = [AgentRow("h1", 100.0, host_heartbeat()), AgentRow("h2", 90.0, host_heartbeat())]
    rules = [AlertRule("a", Figure.AGENT)]
    found = findings(rules, lambda at: columns(), agents, [], now=NOW, age_s=101.0)
    assert [(one.subject, one.above) for one in found] == [("h1", False), ("h2", True)]
    assert "the agent h2 (host) has sent no heartbeat for 11 s" in found[1].reason


def test_validity__names_the_reasons() -> None:
    flaws = [Flaw(FORWARDED, "ports", f"reason {i}", "mend it") for i in range(5)]
    rules = [AlertRule("v", Figure.INVALID)]
    (found,) = findings(rules, lambda at: columns(), [], flaws, now=NOW, age_s=0.0)
    assert found.above
    assert "reason 0; reason 1; reason 2; and 2 more reasons" in found.reason
    assert found.remedy == "mend it"
    (found,) = findings(rules, lambda at: columns(), [], [], now=NOW, age_s=0.0)
    assert not found.above


@pytest.mark.timing
def test_findings__half_a_million_flows_take_less_than_a_turn() -> None:
    """The default rules, on as many flows as the memory holds."""
    few = columns(*flows(500, **LATE), *flows(500, **MET))
    many = FlowColumns.joined([few] * 500)
    began = time.thread_time()
    found = findings(DEFAULT_RULES, lambda at: many, [], [], now=NOW, age_s=0.0)
    assert found[0].flows == 500_000
    assert time.thread_time() - began < 1.0
