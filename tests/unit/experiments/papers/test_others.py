# SPDX-License-Identifier: Apache-2.0
"""The experiments on DATCP and adaptive thresholds: whose flow is which, what a cause changes, when a run settles."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.__main__ import EXPERIMENTS, load
from experiments.kit.flows import places
from experiments.papers.adaptive_thresholds import common as dyna
from experiments.papers.adaptive_thresholds import completion_times, convergence
from sluice.policy.units import time_ns
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_with
from tests.kit.bundles import given


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("datcp")])
def test_places__each_flow_of_a_run_is_one_of_the_scenario(name: str) -> None:
    figure = load(name)
    for point in figure.runner.plan(given(figure, "--seeds", "1"))[""].points:  # type: ignore[attr-defined]
        scenario, document, topology = scenario_with(point.document)
        tables = document["workload"]["flow"]
        flows = scheduled_flows(scenario, topology, np.random.default_rng(), "run")
        rows = [{"id": f.id, "src": f.src, "started_at": 1e9 + f.start_s} for f in reversed(flows)]
        place = places(rows, tables)
        assert sorted(place.values()) == list(range(len(tables)))
        for flow in flows:
            table = tables[place[flow.id]]
            assert (table["from"], table.get("label", "")) == (flow.src, flow.label)
            assert time_ns("start", table["start"]) / 1e9 == flow.start_s


def test_cause_points__change_what_they_say_and_nothing_else() -> None:
    asked = given(completion_times.DYNA_CAUSES, "--seeds", "1", "--loads", "0.5")
    [plain] = dyna.cause_points(asked, ["as-is"], ["static-1KB"])
    assert plain.document == dyna.plan(given(convergence.FIG5))[""].points[0].document
    for cause, tables in dyna.CAUSES.items():
        [point] = dyna.cause_points(asked, [cause], ["static-1KB"])
        changed = {key for key, value in point.document.items() if value != plain.document[key]}
        assert changed == set(tables)


def test_settles() -> None:
    assert dyna.settles([(0.0, 1000), (0.2, 10_000)]) == 0.2
    assert dyna.settles([(0.0, 10_000), (0.2, 1000), (0.4, 10_000)]) == 0.4
    assert dyna.settles([(0.0, 1000), (0.2, 10_000), (0.4, 1000)]) is None
