# SPDX-License-Identifier: Apache-2.0
"""The experiments on adaptive thresholds: the paper's runs, and the claims about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.kit.experiment import Given
from experiments.kit.runs import Results, Runs
from experiments.papers.adaptive_thresholds import causes, fig5, mismatch_fct, threshold_convergence
from experiments.papers.adaptive_thresholds.common import (
    CAUSES,
    LOADS,
    cause_points,
    figures_of,
    plan,
    settles,
)
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.scenario import Scenario, scenario_from_document
from sluice.runs.files import load_cdf
from sluice.sweep.points import Point
from tests.kit.finished_runs import flows, given, run_of

GIVEN = given(fig5.EXPERIMENT, "--seeds", "1", "2")


def scenario_of(point: Point) -> Scenario:
    return scenario_from_document(point.document, load_cdf)


def planned(asked: Given = GIVEN) -> list[Point]:
    return list(plan(asked)[""].points)


def workload_of(point: Point) -> Workload:
    workload = scenario_of(point).workload
    assert isinstance(workload, Workload)
    return workload


def test_plan__is_the_papers_set_up() -> None:
    points = planned()
    assert len(points) == 6 * len(LOADS) * 2
    for point in points:
        policy, fabric = scenario_of(point).policy, scenario_of(point).fabric.parameters
        assert (policy.queues, policy.mark_at, workload_of(point).flows) == (2, 65 * 1500, 10_000)
        assert (fabric["host_rate_bps"], fabric["link_delay_ns"], fabric["hosts"]) == (10**10, 20_200, 4)
        if policy.scheme == "mlfq-adaptive":
            assert (policy.window_ms, policy.interval_ms, policy.percentiles) == (250, 200, (10.0,))
        else:
            assert policy.scheme == "pias"


def test_plan__static_and_dynamic_start_alike() -> None:
    starts = {point.scheme: scenario_of(point).policy.thresholds for point in planned()}
    for start, threshold in (("1KB", 1000), ("10KB", 10_000), ("1000KB", 1_000_000)):
        assert starts[f"static-{start}"] == starts[f"dynamic-{start}"] == (threshold,)


def test_cause_points__change_what_they_say_and_nothing_else() -> None:
    asked = given(causes.EXPERIMENT, "--seeds", "1", "--loads", "0.5")
    [plain] = cause_points(asked, ["as-is"], ["static-1KB"])
    assert plain.document == planned()[0].document
    for cause, tables in CAUSES.items():
        [point] = cause_points(asked, [cause], ["static-1KB"])
        changed = {key for key, value in point.document.items() if value != plain.document[key]}
        assert changed == set(tables)


def test_headers_counted__the_end_of_a_long_flow_lies_above_the_threshold() -> None:
    [*_, point] = cause_points(GIVEN, ["headers-counted"], ["static-1000KB"])
    [threshold] = scenario_of(point).policy.thresholds
    longest = max(workload_of(point).sizes.at(np.linspace(0, 0.999, 100))[0])
    assert threshold < longest < threshold * 1.03


def test_figures_of__short_and_long_apart() -> None:
    found = figures_of(flows([50, 150, 3000], bytes=[10_000, 10_000, 1_000_000]))
    assert (found["short_mean"], found["long_mean"]) == (100, 3000)
    assert found["short_p99"] == pytest.approx(149)


def test_settles() -> None:
    assert settles([(0.0, 1000), (0.2, 10_000)]) == 0.2
    assert settles([(0.0, 10_000), (0.2, 1000), (0.4, 10_000)]) == 0.4
    assert settles([(0.0, 1000), (0.2, 10_000), (0.4, 1000)]) is None


@pytest.mark.parametrize(("valid", "holds"), [(True, True), (False, False)])
def test_mismatch_fct__a_run_that_is_not_valid_proves_nothing(valid: bool, holds: bool) -> None:
    columns: dict[str, Any] = dict.fromkeys(mismatch_fct.FIGURES.values(), 1.0)
    slower: dict[str, Any] = dict.fromkeys(columns, 2.0)
    runs = [run_of(variant, **columns) for variant in mismatch_fct.VARIANTS if variant != "pias-1KB"]
    runs.append(run_of("pias-1KB", valid=valid, **slower))
    found = mismatch_fct.claims(Results(GIVEN, {"": Runs(runs)}))
    assert found[0].what == "small mean, start 1 KB"
    assert found[0].measured == "0.50 (0.50 … 0.50)"
    assert found[0].holds is holds


def test_threshold_convergence__a_threshold_that_leaves_again_does_not_converge() -> None:
    there, back = [(0.5, 10_000), (9.0, 10_000)], [(0.5, 10_000), (1.0, 5000), (9.0, 10_000)]
    converges = threshold_convergence._converges
    assert converges("1KB", [(0.0, 1000), *there], True).holds
    assert not converges("1KB", [(0.0, 1000), *there], False).holds
    assert not converges("1KB", [(0.0, 1000), *back], True).holds
    assert converges("1KB", [(0.0, 1000)], True).measured == "never"
