# SPDX-License-Identifier: Apache-2.0
"""The experiments on FISH: set-ups, FISH's two changes, figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from experiments.kit.experiment import Given
from experiments.kit.runs import Results, Runs
from experiments.papers.fish import burst, fig9
from experiments.papers.fish.common import GAPS, VARIANTS, Setup, columns, points
from experiments.papers.fish.fabric import SCENARIO as FABRIC
from experiments.papers.fish.fabric import plan
from experiments.papers.fish.fig6 import PAPER, SETUPS
from experiments.papers.fish.fig6 import SCENARIO as SINGLE
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.scenario import Scenario, scenario_from_document
from sluice.runs.files import load_cdf
from sluice.topologies import build_topology
from tests.kit.finished_runs import NOWHERE, given, run_of
from tests.unit.experiments.kit.test_flows import written


def scenarios(path: Path, setups: Iterable[Setup], gaps: Sequence[str] = GAPS) -> dict[str, Scenario]:
    found = points(Given(NOWHERE, seeds=(1,)), path, list(setups), gaps=gaps)
    return {point.scheme: scenario_from_document(point.document, load_cdf) for point in found}


def flows_of(scenario: Scenario) -> int | None:
    assert isinstance(scenario.workload, Workload)
    return scenario.workload.flows


def test_points__every_variant_gap_and_set_up() -> None:
    made = scenarios(SINGLE, SETUPS.values())
    assert len(made) == len(VARIANTS) * len(GAPS) * len(SETUPS)
    for scenario in made.values():
        assert (flows_of(scenario), scenario.fabric.parameters["hosts"]) == (100, 2)


def test_variants__differ_by_one_half_each() -> None:
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
def test_setups__are_in_the_scenario(setup: Setup) -> None:
    for scenario in scenarios(FABRIC, [setup]).values():
        assert scenario.policy.buffer == setup.capacity * 1500
        assert scenario.transport.initial_window == setup.window
        assert scenario.simulator.duplicate_threshold == (0 if setup.recovery == "timeouts" else 3)
        assert scenario.simulator.recovery == ("linux" if setup.recovery == "linux" else "plain")


def test_fabric__is_the_papers() -> None:
    scenario = next(iter(scenarios(FABRIC, [Setup()]).values()))
    topology = build_topology(scenario)
    assert (len(topology.hosts), len(topology.switches), flows_of(scenario)) == (16, 8, 800)
    assert {port.rate_bps for port in topology.ports if port.edge} == {10**10}
    assert {port.rate_bps for port in topology.ports if not port.edge} == {2 * 10**10}


def test_fabric__both_figures_share_a_folder() -> None:
    [group] = plan(given(fig9.EXPERIMENT, "--seeds", "2")).values()
    assert str(group.folder) == "results/fish-fabric"
    assert len(group.points) == 2 * 3 * (3 * 3 + 1)


def test_paper__the_tables_differences_are_within_six_in_a_thousand() -> None:
    assert all(abs(value) <= 0.0061 for (figure, _), value in PAPER.items() if not figure.startswith("small"))


def test_columns__no_large_flow_is_no_value(tmp_path: Path) -> None:
    found = columns(written(tmp_path, size_class=["small", "medium"], fct_us=[1000.0, 3000.0]))
    assert (found["small_mean"], found["medium_mean"]) == (1, 3)
    assert np.isnan(found["large_mean"])


def test_burst__faster_small_flows_and_large_ones_within_4_percent() -> None:
    def runs(scheme: str, small: float, large: float) -> Runs:
        columns_of = {"fct_us_small_mean": small, "fct_us_small_p99": small, "fct_us_large_mean": large}
        return Runs(
            [
                run_of(f"{scheme}-1ms", seed=seed, **{name: v + seed for name, v in columns_of.items()})
                for seed in range(5)
            ]
        )

    both = Runs([*runs("pias", 100.0, 1000.0).runs, *runs("fish", 80.0, 1050.0).runs])
    found = burst.claims(Results(given(burst.EXPERIMENT, "--gaps", "1ms"), {"": both}))
    assert [claim.holds for claim in found] == [True, True, True, True, False]


def test_burst__both_schemes_with_the_same_marking_and_gap() -> None:
    found = burst.variants(["1ms", "5ms"])
    assert len(found) == 4
    assert found["fish-5ms"] == {**found["pias-5ms"], "name": "fish"}
