# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.checks.random_faults.faults import KINDS, SECONDS, Fault
from experiments.checks.random_faults.run import EXCUSED_S, Outcome, claims, document_of, unexcused
from experiments.kit.port_gaps import Gap
from sluice.policy.wire.records import FINISHED, FlowRecord
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.runs.files import scenario_with

RULES = {"s1": {"priority=1 actions=drop"}}


def test_document__is_a_scenario_of_as_many_seconds() -> None:
    scenario, *_ = scenario_with(document_of(1, 20.0, np.random.default_rng(1)))
    assert isinstance(scenario.workload, ExplicitWorkload)
    starts_s = [flow.start_s for flow in scenario.workload.flows]
    assert 80 < len(starts_s) < 160
    assert max(starts_s) < 20.0


@pytest.mark.parametrize(
    ("kind", "target", "stops"),
    [
        ("kill", "ovs-vswitchd", True),
        ("stop", "ovs-vswitchd", True),
        ("kill", "ovsdb-server", True),
        ("stop", "ovsdb-server", False),
        ("kill", "controller", False),
        ("disconnect", "s1", False),
        ("link", "s1-eth1", True),
    ],
)
def test_faults__which_of_them_stop_packets_by_themselves(kind: str, target: str, stops: bool) -> None:
    assert Fault(kind, target, 1.0, 100.0).stops_packets == stops


@pytest.mark.parametrize(
    ("began_at", "ended_at", "excused"),
    [(99.0, 99.9, False), (99.0, 100.1, True), (102.0, 103.0, True), (102.1 + EXCUSED_S, 110.0, False)],
)
def test_unexcused__what_begins_in_the_time_of_an_unplugged_link_is_not(
    began_at: float, ended_at: float, excused: bool
) -> None:
    gap = Gap(ended_at, ended_at - began_at)
    faults = [Fault("kill", "controller", 0.0, began_at), Fault("link", "s1-eth1", 2.0, 100.0)]
    assert unexcused([gap], faults) == ([] if excused else [gap])


def record(name: str) -> FlowRecord:
    return FlowRecord(
        name, "h1", "h2", 1, "small", 0.0, 1.0, 1.0, None, None, 0, "sluice_dctcp", "pias", FINISHED
    )


def outcome(**changes: Any) -> Outcome:
    faults = [Fault(kind, "s1", SECONDS[kind][1], 0.0) for kind in KINDS]
    settled = {"faults": faults, "records": [record("a"), record("b")], "scheduled": ["a", "b"]}
    return Outcome(**{**settled, "rules": RULES, "fresh": RULES, **changes})


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, {"faults": []}),
        (1, {"records": [record("a")]}),
        (1, {"records": [record("a"), record("b"), record("b")]}),
        (2, {"rules": {"s1": set()}}),
        (2, {"rules": {"s1": RULES["s1"] | {"priority=2 actions=drop"}}}),
        (3, {"gaps": [Gap(50.0, 1.01)]}),
        (4, {"left": ["a namespace"]}),
    ],
)
def test_claims__each_fails_by_its_own_fault(number: int, changes: dict[str, Any]) -> None:
    assert [claim.holds for claim in claims(outcome())] == [True] * 5
    assert [claim.holds for claim in claims(outcome(**changes))] == [i != number for i in range(5)]
