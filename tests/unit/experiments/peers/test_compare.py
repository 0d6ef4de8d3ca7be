# SPDX-License-Identifier: Apache-2.0
"""The peers have the same flows on each fabric, and under equal rules the same network and transport."""

from pathlib import Path

import pytest

from experiments.peers.compare import EQUAL, EXPERIMENT, LINES, overlaid, plan
from sluice.sweep.points import Document
from tests.kit.bundles import given

pytestmark = pytest.mark.slow


def documents(out: Path, *words: str) -> dict[str, Document]:
    """Return the scenarios of a group by scheme."""
    asked = given(EXPERIMENT, "--out", str(out), "--seeds", "1", "--loads", "0.8", *words)
    [group] = plan(asked).values()
    return {point.scheme: point.document for point in group.points}


def test_overlaid__keeps_what_an_inner_table_does_not_name() -> None:
    over = {"a": {"x": 2}, "b": {"y": 3}}
    assert overlaid({"a": {"x": 1, "z": 0}, "c": 4}, over) == {"a": {"x": 2, "z": 0}, "b": {"y": 3}, "c": 4}


@pytest.mark.parametrize(("hosts", "rate"), [("144", "10Gbit"), ("320", "100Gbit")])
@pytest.mark.parametrize("rules", ["own", "equal"])
def test_plan__all_schemes_have_the_same_flows(tmp_path: Path, hosts: str, rate: str, rules: str) -> None:
    group = documents(tmp_path, "--hosts", hosts, "--rules", rules, "--workloads", "web-search")
    first = group["dctcp"]
    assert list(group) == list(LINES)
    assert first["fabric"]["host_rate"] == rate
    assert all(each["workload"] == first["workload"] for each in group.values())


def test_plan__equal_rules_are_the_same_network_and_transport(tmp_path: Path) -> None:
    group = documents(tmp_path, "--hosts", "320", "--rules", "equal", "--workloads", "web-search")
    rules = [
        (each["fabric"], each["transport"], each["simulator"], each["scheme"]["buffer"])
        for each in group.values()
    ]
    assert all(each == rules[0] for each in rules)
    assert rules[0][2:] == (EQUAL, "2850KB")
