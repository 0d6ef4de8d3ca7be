# SPDX-License-Identifier: Apache-2.0
"""The experiments fish_fig6, fish_fig8, fish_fig9: set-ups, the two halves of FISH, figures."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.kit.pool import Flows
from experiments.papers.fish.common import GAPS, VARIANTS, Setup, figures_of, planned
from experiments.papers.fish.fabric import SCENARIO as FABRIC
from experiments.papers.fish.fig6 import PAPER, SETUPS
from experiments.papers.fish.fig6 import SCENARIO as SINGLE
from policy.scenario import scenario_from_document
from sluice.runs.files import load_cdf, read_document
from topologies import build_topology


def scenarios(path, setups, **axes):
    return {
        point.scheme: scenario_from_document(point.document, load_cdf)
        for point in planned(read_document(path), setups, [1], **axes)
    }


def test_planned__every_variant_gap_and_set_up():
    made = scenarios(SINGLE, SETUPS.values())
    assert len(made) == len(VARIANTS) * len(GAPS) * len(SETUPS)
    for scenario in made.values():
        assert (scenario.workload.flows, scenario.fabric.parameters["hosts"]) == (100, 2)


def test_variants__differ_by_one_half_each():
    made = scenarios(SINGLE, [Setup()], gaps=["1ms"])
    has = {
        name.split("-240pkt")[0]: (scenario.policy.flow_queues, scenario.policy.shares is not None)
        for name, scenario in made.items()
    }
    assert has == {
        "pias": (False, False),
        "pias-shares": (False, True),
        "fish-strict": (True, False),
        "fish": (True, True),
    }
    policies = {scenario.policy.thresholds for scenario in made.values()}
    shares = {scenario.policy.shares for scenario in made.values()} - {None}
    assert len(policies) == len(shares) == 1


@pytest.mark.parametrize("setup", [*SETUPS.values(), Setup(480, 16)])
def test_setups__are_in_the_scenario(setup):
    for scenario in scenarios(FABRIC, [setup]).values():
        assert scenario.policy.buffer == setup.capacity * 1500
        assert scenario.transport.initial_window == setup.window
        assert scenario.simulator.duplicate_threshold == (0 if setup.recovery == "timeouts" else 3)
        assert scenario.simulator.recovery == ("linux" if setup.recovery == "linux" else "plain")


def test_fabric__is_the_papers():
    scenario = next(iter(scenarios(FABRIC, [Setup()]).values()))
    topology = build_topology(scenario)
    assert (len(topology.hosts), len(topology.switches), scenario.workload.flows) == (16, 8, 800)
    assert {port.rate_bps for port in topology.ports if port.edge} == {10**10}
    assert {port.rate_bps for port in topology.ports if not port.edge} == {2 * 10**10}


def test_paper__the_tables_differences_are_within_six_in_a_thousand():
    assert all(abs(value) <= 0.0061 for (figure, _), value in PAPER.items() if not figure.startswith("small"))


def test_figures_of__no_large_flow_is_no_value():
    flows = Flows(
        np.asarray(["small", "medium"]), np.asarray([1, 2]), np.zeros(2), np.asarray([1000.0, 3000.0])
    )
    found = figures_of(flows)
    assert (found["small_mean"], found["medium_mean"]) == (1, 3)
    assert np.isnan(found["large_mean"])
