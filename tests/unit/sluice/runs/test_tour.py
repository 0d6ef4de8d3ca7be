# SPDX-License-Identifier: Apache-2.0
"""The tour and its scoreboard."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.policy.figures.scoreboard import Period, Score, ScoredFlows, scoreboard
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import scheme_named
from sluice.policy.wire.records import FlowRecord
from sluice.runs import tour
from sluice.runs.bundle import policy_rows
from sluice.runs.files import scenario_from_file, scenario_with
from sluice.runs.tour import (
    SCHEMES,
    Stage,
    by_stage,
    cdf_plot,
    finish_tour,
    print_scoreboard,
    scheme_table,
    tour_policies,
)
from sluice.store.desired import PolicyVersion
from sluice.terminal import console
from sluice.topologies import build_topology
from tests.kit.bundles import document, flow, write_bundle


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


@pytest.mark.slow
@pytest.mark.parametrize("schemes", [["tcp"], ["tcp", "dctcp", "pias"]])
def test_finish_tour__prints_a_table_and_writes_a_report_also_of_one_stage(
    schemes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        policies=policy_rows(rows),
        version_of=by_stage([Stage(row.version, row.policy.scheme) for row in rows], rows),
    )
    monkeypatch.setattr(console, "width", 100)
    with console.capture() as captured:
        finish_tour(tmp_path)
    titles = [scheme_named(scheme).title for scheme in schemes]
    shown = [
        line.split()[0] for line in captured.get().splitlines() if line.strip().startswith(tuple(titles))
    ]
    assert shown == titles, "in the order of the stages"
    assert all(scheme in (tmp_path / "report.html").read_text() for scheme in schemes)


def score(version: int, scheme: str, mean_us: float, count: int = 400) -> Score:
    fct_us = mean_us * np.random.default_rng(version).lognormal(0, 0.3, count)
    began = np.arange(count, dtype=float)
    nothing = np.zeros(count, bool)
    flows = ScoredFlows(
        began,
        began,
        fct_us,
        fct_us / 100,
        np.zeros(count, np.uint8),
        nothing,
        nothing,
        np.zeros(count),
        np.full(count, scheme),
    )
    return Score(Period(version, scheme, 0.0, math.inf), flows)


@pytest.fixture
def versions() -> list[dict[str, Any]]:
    return scoreboard([score(2, "dctcp", 4000.0), score(3, "pias", 1000.0), score(4, "ucp", 4000.0)], 2)


def test_print_scoreboard__ratio_and_sign_of_each_scheme(
    versions: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 100)
    with console.capture() as captured:
        print_scoreboard(versions, "dctcp")
    lines = captured.get().splitlines()
    at = next(i for i, line in enumerate(lines) if "PIAS" in line)
    assert "×0.25▼" in lines[at + 1]
    at = next(i for i, line in enumerate(lines) if "UCP" in line)
    assert not {"▼", "▲"} & set(lines[at + 1])
    assert "worse than DCTCP, with 95 %" in captured.get()


def test_cdf_plot__the_faster_scheme_is_left_of_the_slower(versions: list[dict[str, Any]]) -> None:
    lines = [str(line) for line in cdf_plot(versions[:2])]
    middle = lines[1 + tour.HEIGHT // 2].partition("│")[2]
    drawn = [place for place, sign in enumerate(middle) if sign != "\u2800"]
    assert len(middle) == tour.WIDTH
    assert drawn[0] < tour.WIDTH / 2 < drawn[-1]
    assert cdf_plot([]) == []
