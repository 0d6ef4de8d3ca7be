# SPDX-License-Identifier: Apache-2.0
"""sluice_shift: its phases, its variants, and what it compares."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.papers.sluice import shift
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.scenario import Scenario, scenario_from_document
from sluice.runs.files import load_cdf
from tests.kit.finished_runs import given

PHASE_S = 0.5


@pytest.fixture(scope="module")
def scenarios() -> dict[str, Scenario]:
    asked = given(shift.EXPERIMENT, "--phase", str(PHASE_S))
    points = shift.plan(asked)[""].points
    return {point.scheme: scenario_from_document(point.document, load_cdf) for point in points}


def test_plan__the_phases_take_equal_times(scenarios: dict[str, Scenario]) -> None:
    workload = scenarios["sluice"].workload
    assert isinstance(workload, Workload)
    assert [sizes.mean_bytes for sizes in workload.all_sizes] == [
        load_cdf(name).mean_bytes for name in shift.PHASES
    ]
    counts = shift.flows_of_phases(PHASE_S)
    assert workload.flows == sum(counts)
    starts = [int(np.ceil(one.at * workload.flows)) for one in workload.shifts]
    assert starts == np.cumsum(counts)[:-1].tolist()
    assert counts[1] < counts[0] < counts[2]  # the larger the flows, the fewer


def test_plan__only_plain_sluice_adapts(scenarios: dict[str, Scenario]) -> None:
    frozen = {name: scenario.policy.is_frozen("s1:1") for name, scenario in scenarios.items()}
    assert [name for name in frozen if name.startswith("sluice") and not frozen[name]] == ["sluice"]
    thresholds = {scenarios[f"sluice-{name}"].policy.thresholds for name in shift.WORKLOADS}
    assert len(thresholds) == len(shift.WORKLOADS)
    assert scenarios["pias-data-mining"].policy.thresholds[0] == 1_087_700


def seed(**fct_s: list[float]) -> shift.Seed:
    """Two flows of each phase, at its begin and 2 s later."""
    phase, since_s = np.repeat(np.arange(4), 2), np.tile([0.0, 2.0], 4)
    return shift.Seed(
        {
            name: shift.Phased(phase, since_s, np.asarray(values), np.asarray(values))
            for name, values in fct_s.items()
        }
    )


def test_right__takes_each_phase_from_the_run_with_its_thresholds() -> None:
    runs = {f"pias-{name}": [float(i)] * 8 for i, name in enumerate(shift.WORKLOADS)}
    assert seed(**runs).right("pias") == np.mean([0, 0, 1, 1, 2, 2, 0, 0])


def test_ratio__of_the_flows_that_start_late_enough() -> None:
    found = seed(ours=[9, 1, 9, 2, 9, 3, 9, 4], best=[1.0] * 8)
    best = dict.fromkeys(range(4), "best")
    assert found.ratio("ours", best, after_s=1.5) == {0: 1, 1: 2, 2: 3, 3: 4}
    assert found.ratio("ours", best)[0] == 5
    assert found.whole("ours") == 5.75
