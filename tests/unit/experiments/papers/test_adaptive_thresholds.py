# SPDX-License-Identifier: Apache-2.0
"""The experiments dyna_fig5 … dyna_fig8: the paper's runs, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.kit.paired import Difference
from experiments.kit.pool import Flows
from experiments.papers.adaptive_thresholds.common import (
    CAUSES,
    LOADS,
    Runs,
    cause_points,
    figures_of,
    planned,
)
from experiments.papers.adaptive_thresholds.fig5 import settles
from experiments.papers.adaptive_thresholds.short_flows import Changes
from policy.scenario import scenario_from_document
from sluice.runs.files import load_cdf

RUNS = Runs(Path("nowhere"), 10_000, (1, 2), None)


def scenario_of(point):
    return scenario_from_document(point.document, load_cdf)


def test_planned__is_the_papers_set_up():
    points = planned(RUNS)
    assert len(points) == 6 * len(LOADS) * 2
    for point in points:
        scenario = scenario_of(point)
        policy, fabric = scenario.policy, scenario.fabric.parameters
        assert (policy.queues, policy.mark_at, scenario.workload.flows) == (2, 65 * 1500, 10_000)
        assert (fabric["host_rate_bps"], fabric["link_delay_ns"], fabric["hosts"]) == (10**10, 20_200, 4)
        if policy.scheme == "mlfq-adaptive":
            assert (policy.window_ms, policy.interval_ms, policy.percentiles) == (250, 200, (10.0,))
        else:
            assert policy.scheme == "pias"


def test_planned__static_and_dynamic_start_alike():
    starts = {point.scheme: scenario_of(point).policy.thresholds for point in planned(RUNS)}
    for start, threshold in (("1KB", 1000), ("10KB", 10_000), ("1000KB", 1_000_000)):
        assert starts[f"static-{start}"] == starts[f"dynamic-{start}"] == (threshold,)


def test_cause_points__change_what_they_say_and_nothing_else():
    one_seed = Runs(RUNS.folder, 10_000, (1,), None)
    [plain] = cause_points(one_seed, ["as-is"], ["static-1KB"], [0.5])
    assert plain.document == planned(RUNS)[0].document
    for cause, tables in CAUSES.items():
        [point] = cause_points(one_seed, [cause], ["static-1KB"], [0.5])
        changed = {key for key, value in point.document.items() if value != plain.document[key]}
        assert changed == set(tables)


def test_headers_counted__the_end_of_a_long_flow_lies_above_the_threshold():
    [point] = cause_points(
        Runs(RUNS.folder, 10_000, (1,), None), ["headers-counted"], ["static-1000KB"], [0.9]
    )
    scenario = scenario_of(point)
    [threshold] = scenario.policy.thresholds
    longest = max(scenario.workload.sizes.at(np.linspace(0, 0.999, 100))[0])
    assert threshold < longest < threshold * 1.03


def flows(size_bytes, fct_us):
    count = len(size_bytes)
    return Flows(np.full(count, "small"), np.asarray(size_bytes), np.zeros(count), np.asarray(fct_us, float))


def test_figures_of__short_and_long_apart():
    found = figures_of(flows([10_000, 10_000, 1_000_000], [50, 150, 3000]))
    assert (found["short_mean"], found["long_mean"]) == (100, 3000)
    assert found["short_p99"] == pytest.approx(149)


def test_figures_of__a_flow_that_did_not_finish_is_no_fast_one():
    with pytest.raises(ValueError, match="unfinished"):
        figures_of(flows([10_000, 1_000_000], [50, np.nan]))


def test_settles():
    assert settles([(0.0, 1000), (0.2, 10_000)]) == 0.2
    assert settles([(0.0, 10_000), (0.2, 1000), (0.4, 10_000)]) == 0.4
    assert settles([(0.0, 1000), (0.2, 10_000), (0.4, 1000)]) is None


def change(mean):
    return Difference(mean, mean - 0.01, mean + 0.01, 5, 0.0)


def test_changes():
    changes = Changes({0.5: change(-0.2), 0.9: change(-0.5)})
    assert changes.lower
    assert changes.grows
    assert not changes.within(0.3)
    assert str(changes) == "−20.0 % at 50 % … −50.0 % at 90 %"
    assert not Changes({0.5: change(-0.005), 0.9: change(-0.5)}).lower
    assert not Changes({0.5: change(-0.5), 0.9: change(-0.5)}).grows
