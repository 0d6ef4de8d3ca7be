# SPDX-License-Identifier: Apache-2.0
"""pias_144: its scenarios agree with the authors' scripts, its claims with the paper."""

from __future__ import annotations

import pytest

from experiments.papers.pias import pias_144
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import SCENARIOS, load_cdf, read_document
from sluice.sweep import points
from tests.kit.finished_runs import claim, given, sweep_of

FCT = [f"fct_us_{group}_{name}" for group in ("small", "medium", "large", "all") for name in ("mean", "p99")]
LOADS = pias_144.EXPERIMENT.loads


@pytest.mark.parametrize("name", pias_144.WORKLOADS.values())
def test_every_point_is_the_authors_set_up(name: str) -> None:
    document = read_document(SCENARIOS / f"{name}.toml")
    for point in points(document, schemes=pias_144.SCHEMES, loads=LOADS):
        scenario = scenario_from_document(point.document, load_cdf)
        small = point.scheme == "pfabric"
        assert scenario.policy.buffer == (210_000 if small else 360_000)
        assert scenario.transport.rto_min_us == (250 if small else 2000)
        assert (scenario.transport.initial_window, scenario.simulator.duplicate_threshold) == (70, 0)
        if point.scheme == "pias":
            assert all(threshold % 1460 == 0 for threshold in scenario.policy.thresholds)


def test_thresholds_are_those_of_the_load() -> None:
    document = read_document(SCENARIOS / "pias-144.toml")
    first = []
    for load in LOADS:
        [point] = points(document, schemes=["pias"], loads=[load])
        first.append(scenario_from_document(point.document, load_cdf).policy.thresholds[0] // 1460)
    assert first == [1059, 956, 999, 909, 759]


def test_plan__a_folder_for_each_workload_that_is_asked_for() -> None:
    asked = given(pias_144.EXPERIMENT, "--workloads", "data mining", "--seeds", "1", "--loads", "0.5")
    [(name, group)] = pias_144.plan(asked).items()
    assert (name, str(group.folder)) == ("data mining", "results/pias_144/data-mining")
    assert [point.name for point in group.points] == [
        f"{s}/load-0.5/seed-01" for s in ("dctcp", "pias", "pfabric")
    ]


@pytest.mark.parametrize(("pias", "holds"), [(0.5, True), (0.7, False), (1.2, False)])
def test_claims__half_of_dctcp(pias: float, holds: bool) -> None:
    times = {"dctcp": 1.0, "pias": pias, "pfabric": pias}
    claims = pias_144.claims_of("web search", sweep_of(pias_144.SCHEMES, (0.5, 0.8), FCT, times.get))
    assert claim(claims, "web search: small mean, PIAS/DCTCP").holds is holds
    assert claim(claims, "web search: small mean, PIAS/pFabric").holds
