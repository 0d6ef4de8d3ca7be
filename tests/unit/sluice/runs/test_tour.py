# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import FlowRecord
from sluice.runs.bundle import write_bundle
from sluice.runs.files import scenario_from_file, scenario_with
from sluice.runs.tour import SCHEMES, Stage, by_stage, finish_tour, scheme_table, tour_policies
from sluice.runs.versions import policy_rows
from sluice.store.desired import PolicyVersion
from sluice.topologies import build_topology
from tests.unit.sluice.bundles import document, flow


def demo_policies() -> tuple[Policy, list[Policy]]:
    scenario, *_ = scenario_from_file(Path("demo"))
    return scenario.policy, tour_policies(scenario, build_topology(scenario))


def test_tour_policies__all_have_the_networks_buffer_and_k() -> None:
    own, policies = demo_policies()
    assert tuple(policy.scheme for policy in policies) == SCHEMES
    assert {policy.buffer for policy in policies} == {own.buffer}
    assert {policy.mark_at for policy in policies} == {None, own.mark_at}  # TCP does not mark


def test_tour_policies__fixed_thresholds_are_within_the_traffics_sizes() -> None:
    _, policies = demo_policies()
    pias = policies[SCHEMES.index("pias")]
    assert max(pias.thresholds[:4]) < 20_000_000 * 0.02  # the largest flow of the scaled workload
    assert pias.thresholds[0] < 100_000


def test_tour_policies__adaptive_thresholds_do_not_begin_where_the_scenario_shows_their_way() -> None:
    own, policies = demo_policies()
    adaptive = policies[SCHEMES.index("mlfq-adaptive")]
    assert adaptive.thresholds < own.thresholds
    assert (adaptive.percentiles, adaptive.window_ms) == (own.percentiles, own.window_ms)


def test_scheme_table__is_the_same_policy_in_a_scenario() -> None:
    _, document, _ = scenario_from_file(Path("demo"))
    for policy in demo_policies()[1]:
        assert scenario_with(document, scheme=scheme_table(policy))[0].policy == policy


def in_stages(*stages: str) -> list[FlowRecord]:
    """Return ten flows of each stage."""
    flows = [flow(10 * n + i, 1000, 100.0 * (n + 1)) for n in range(len(stages)) for i in range(10)]
    return [replace(one, id=f"{stages[i // 10]}/{i}") for i, one in enumerate(flows)]


@pytest.mark.parametrize(("schemes", "versions"), [(["tcp"], 1), (["tcp", "dctcp", "pias"], 3)])
def test_finish_tour__writes_table_picture_and_report_also_of_one_stage(
    schemes: list[str], versions: int, tmp_path: Path
) -> None:
    rows = [
        PolicyVersion(n, Policy.from_document({"scheme": scheme}), "tour", 10.0 * n, 10.0 * n)
        for n, scheme in enumerate(schemes, start=1)
    ]
    write_bundle(
        tmp_path,
        scenario=document("tcp"),
        meta={"on": "simulator"},
        flows=in_stages(*schemes),
        thresholds=[],
        samples=[],
        validity_reasons=[],
        policies=policy_rows(rows),
        version_of=by_stage([Stage(row.version, row.policy.scheme) for row in rows], rows),
    )
    finish_tour(tmp_path)
    assert len(json.loads((tmp_path / "scoreboard.json").read_text())["versions"]) == versions
    assert (tmp_path / "scoreboard.png").stat().st_size > 1000
    assert all(scheme in (tmp_path / "report.html").read_text() for scheme in schemes)
