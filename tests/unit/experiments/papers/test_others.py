# SPDX-License-Identifier: Apache-2.0
"""The experiments on Aemon, DATCP, FISH, PIAS and adaptive thresholds: set-ups of the papers, and figures of a run."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.kit.experiment import Given
from experiments.kit.flows import places
from experiments.papers import pias
from experiments.papers.adaptive_thresholds import common as dyna
from experiments.papers.adaptive_thresholds import completion_times, convergence
from experiments.papers.aemon import schemes as aemon
from experiments.papers.datcp import full
from experiments.papers.fish import figures as fish
from sluice.policy.network.graph import Topology
from sluice.policy.units import time_ns
from sluice.policy.wire.records import ScheduledFlow
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.scenario import Scenario, scenario_from_document, scheduled_flows
from sluice.runs.files import SCENARIOS, load_cdf, read_document, scenario_with
from sluice.sweep import points
from sluice.sweep.points import Point
from tests.kit.bundles import NOWHERE, given

# The experiments on Aemon: scenarios, and figures of a run.


@pytest.mark.parametrize("name", ["aemon", "aemon-data-mining"])
def test_scenarios__every_scheme_marks_at_the_slides_thresholds(name: str) -> None:
    chosen = aemon.FCT_SCHEMES if name == "aemon" else aemon.MISSES_SCHEMES
    for point in points(read_document(SCENARIOS / f"{name}.toml"), schemes=chosen, loads=aemon.LOADS):
        policy = scenario_from_document(point.document, load_cdf).policy
        if point.scheme != "pfabric":
            assert (policy.mark_at, policy.mark_at_core) == (97_500, 375_000)


# The experiments on DATCP: their scenarios are valid, and their series show what happened.


def points_of(number: int) -> dict[str, Point]:
    """Return folder → run of a figure, with the first seed."""
    figure = full.FIGURES[number]
    planned = figure.runner.plan(given(figure, "--seeds", "1"))  # type: ignore[attr-defined]
    return {point.name: point for point in planned[""].points}


def flows_of(point: Point) -> tuple[Scenario, Topology, list[ScheduledFlow]]:
    scenario, _, topology = scenario_with(point.document)
    return scenario, topology, scheduled_flows(scenario, topology, np.random.default_rng(), "run")


FOLDERS = {
    8: ["no-deadline", "10-MB-in-4-s", "10-MB-in-3-s", "100-MB-in-30-s"],
    9: ["convergence"],
    10: ["importance-1", "importance-2", "importance-3"],
    11: ["never", "kill"],
    12: ["background-3", "background-6"],
    13: ["datcp", "tcp"],
    14: ["datcp", "all-may", "tcp", "untold"],
}


@pytest.mark.parametrize("number", full.FIGURES)
def test_plan__scenarios_into_one_link_of_the_papers_port(number: int) -> None:
    points = points_of(number)
    assert list(points) == [f"{folder}-seed1" for folder in FOLDERS[number]]
    for point in points.values():
        scenario, _, flows = flows_of(point)
        assert {flow.dst for flow in flows} == {"h1"}
        assert scenario.policy.buffer == 200_000
        transport = scenario.transport
        assert (transport.rto_min_ms, transport.max_window, scenario.sample_ms) == (10, 50, 100)
        if scenario.policy.scheme == "datcp":
            assert (scenario.policy.mark_min, scenario.policy.mark_max) == (80_000, 120_000)


@pytest.mark.parametrize("number", full.FIGURES)
def test_places__each_flow_of_a_run_is_one_of_the_scenario(number: int) -> None:
    for point in points_of(number).values():
        tables = point.document["workload"]["flow"]
        flows = flows_of(point)[2]
        rows = [{"id": f.id, "src": f.src, "started_at": 1e9 + f.start_s} for f in reversed(flows)]
        place = places(rows, tables)
        assert sorted(place.values()) == list(range(len(tables)))
        for flow in flows:
            table = tables[place[flow.id]]
            assert (table["from"], table.get("label", "")) == (flow.src, flow.label)
            assert time_ns("start", table["start"]) / 1e9 == flow.start_s


# ── The experiments on FISH: set-ups, FISH's two changes, figures ──────────────────────────────


def test_variants__differ_by_one_half_each() -> None:
    points = fish.points(Given(NOWHERE, seeds=(1,)), fish.FIG6_SCENARIO, [fish.Setup()], gaps=["1ms"])
    policies = {
        point.scheme.split("-240pkt")[0]: scenario_from_document(point.document, load_cdf).policy
        for point in points
    }
    assert {name: (policy.flow_queues, policy.shares is not None) for name, policy in policies.items()} == {
        "pias": (False, False),
        "pias-shares": (False, True),
        "fish-strict": (True, False),
        "fish": (True, True),
    }
    assert len({policy.thresholds for policy in policies.values()}) == 1
    assert len({policy.shares for policy in policies.values()} - {None}) == 1


# ── pias_144: its scenarios agree with the authors' scripts ──────────────────────────────────────


LOADS = pias.EXPERIMENT.loads


@pytest.mark.parametrize("name", pias.WORKLOADS.values())
def test_every_point_is_the_authors_set_up(name: str) -> None:
    document = read_document(SCENARIOS / f"{name}.toml")
    for point in points(document, schemes=pias.SCHEMES, loads=LOADS):
        scenario = scenario_from_document(point.document, load_cdf)
        small = point.scheme == "pfabric"
        assert scenario.policy.buffer == (210_000 if small else 360_000)
        assert scenario.transport.rto_min_us == (250 if small else 2000)
        assert (scenario.transport.initial_window, scenario.simulator.duplicate_threshold) == (70, 0)
        if point.scheme == "pias":
            assert all(threshold % 1460 == 0 for threshold in scenario.policy.thresholds)


# ── The experiments on adaptive thresholds: the paper's runs, and when a threshold has settled ────


GIVEN = given(convergence.FIG5, "--seeds", "1", "2")


def scenario_of(point: Point) -> Scenario:
    return scenario_from_document(point.document, load_cdf)


def planned(asked: Given = GIVEN) -> list[Point]:
    return list(dyna.plan(asked)[""].points)


def workload_of(point: Point) -> Workload:
    workload = scenario_of(point).workload
    assert isinstance(workload, Workload)
    return workload


def test_plan__is_the_papers_set_up() -> None:
    points = planned()
    assert len(points) == 6 * len(dyna.LOADS) * 2
    for point in points:
        policy, fabric = scenario_of(point).policy, scenario_of(point).fabric.parameters
        assert (policy.queues, policy.mark_at, workload_of(point).flows) == (2, 65 * 1500, 10_000)
        assert (fabric["host_rate_bps"], fabric["link_delay_ns"], fabric["hosts"]) == (10**10, 20_200, 4)
        if policy.scheme == "mlfq-adaptive":
            assert (policy.window_ms, policy.interval_ms, policy.percentiles) == (250, 200, (10.0,))
        else:
            assert policy.scheme == "pias"


def test_cause_points__change_what_they_say_and_nothing_else() -> None:
    asked = given(completion_times.DYNA_CAUSES, "--seeds", "1", "--loads", "0.5")
    [plain] = dyna.cause_points(asked, ["as-is"], ["static-1KB"])
    assert plain.document == planned()[0].document
    for cause, tables in dyna.CAUSES.items():
        [point] = dyna.cause_points(asked, [cause], ["static-1KB"])
        changed = {key for key, value in point.document.items() if value != plain.document[key]}
        assert changed == set(tables)


def test_settles() -> None:
    assert dyna.settles([(0.0, 1000), (0.2, 10_000)]) == 0.2
    assert dyna.settles([(0.0, 10_000), (0.2, 1000), (0.4, 10_000)]) == 0.4
    assert dyna.settles([(0.0, 1000), (0.2, 10_000), (0.4, 1000)]) is None
