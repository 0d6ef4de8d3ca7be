# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from sluice.policy.figures.metrics import FlowFigures
from sluice.runs.partial import RunningFigures


def flows(fct_us: list[float], classes: list[int], deadlines: list[bool], met: list[bool]) -> FlowFigures:
    times = np.asarray(fct_us)
    return FlowFigures(times, times, np.asarray(classes, np.uint8), np.asarray(deadlines), np.asarray(met), 0)


def test_running_figures__are_those_of_all_parts_together() -> None:
    rng = np.random.default_rng(1)
    fct_us = np.exp(rng.normal(8, 2, 30_000))
    classes = rng.integers(0, 3, 30_000).astype(np.uint8)
    none = np.zeros(30_000, bool)
    figures = RunningFigures()
    for part in np.array_split(np.arange(30_000), 7):
        figures.add(FlowFigures(fct_us[part], fct_us[part], classes[part], none[part], none[part], 0))
    found = figures.document()["classes"]
    for name, chosen in {"small": classes == 0, "large": classes == 2, "all": ~none}.items():
        assert found[name]["n"] == chosen.sum()
        assert found[name]["mean_us"] == pytest.approx(fct_us[chosen].mean())
        assert found[name]["p99_us"] == pytest.approx(np.percentile(fct_us[chosen], 99), rel=0.02)


def test_running_figures__count_unfinished_flows_and_missed_deadlines() -> None:
    figures = RunningFigures()
    figures.add(flows([100.0, float("nan"), 50.0], [0, 0, 1], [True, True, False], [True, False, False]))
    found = figures.document()
    assert (found["deadlines"], found["missed"], found["unfinished"]) == (2, 1, 1)
    assert found["classes"]["small"]["n"] == 1
    assert found["classes"]["large"] == {"n": 0, "mean_us": None, "p99_us": None}


def test_running_figures__extreme_times_stay_in_the_histogram() -> None:
    figures = RunningFigures()
    figures.add(flows([0.0, 1e15], [0, 2], [False, False], [False, False]))
    assert figures.document()["classes"]["all"]["n"] == 2
