# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from policy.desired import Policy
from sluice.runs.files import scenario_from_file, scenario_with
from sluice.runs.tour import SCHEMES, scheme_table, tour_policies
from topologies import build_topology


def demo_policies() -> tuple[Policy, list[Policy]]:
    scenario, _ = scenario_from_file(Path("demo"))
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
    _, document = scenario_from_file(Path("demo"))
    for policy in demo_policies()[1]:
        assert scenario_with(document, scheme=scheme_table(policy))[0].policy == policy
