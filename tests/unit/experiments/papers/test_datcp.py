# SPDX-License-Identifier: Apache-2.0
"""The experiments on DATCP know which flow of a run is which of the scenario."""

import numpy as np
import pytest

from experiments.__main__ import EXPERIMENTS, load
from experiments.kit.flows import places
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
