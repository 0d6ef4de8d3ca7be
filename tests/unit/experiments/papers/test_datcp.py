# SPDX-License-Identifier: Apache-2.0
"""The experiments on DATCP: their scenarios are valid, and their series show what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.kit.experiment import Experiment
from experiments.kit.listed import places
from experiments.kit.main import read_command
from experiments.papers.datcp import fig08, fig09, fig10, fig11, fig12, fig13, fig14, full
from experiments.papers.datcp.common import FULL, SMALL, jain, plan
from sluice.policy.network.graph import Topology
from sluice.policy.units import time_ns
from sluice.policy.wire.records import ScheduledFlow
from sluice.policy.workload.scenario import Scenario, scheduled_flows
from sluice.runs.files import scenario_with
from sluice.sweep.points import Point

FIGURES: dict[str, tuple[Experiment[Any], Any]] = {
    "fig08": (fig08.EXPERIMENT, fig08.cases),
    "fig09": (fig09.EXPERIMENT, fig09.cases),
    "fig10": (fig10.EXPERIMENT, fig10.cases),
    "fig11": (fig11.EXPERIMENT, fig11.cases),
    "fig12": (fig12.EXPERIMENT, fig12.cases),
    "fig13": (fig13.EXPERIMENT, fig13.cases),
    "fig14": (fig14.EXPERIMENT, fig14.cases),
}


def points_of(name: str, *words: str) -> dict[str, Point]:
    """Return folder → run, with the first seed."""
    experiment, cases = FIGURES[name]
    found = plan(cases)(read_command(experiment, ["--seeds", "1", *words]))[""].points
    return {point.name: point for point in found}


def flows_of(point: Point) -> tuple[Scenario, Topology, list[ScheduledFlow]]:
    scenario, _, topology = scenario_with(point.document)
    return scenario, topology, scheduled_flows(scenario, topology, np.random.default_rng(), "run")


FOLDERS = {
    "fig08": ["no-deadline", "10-MB-in-4-s", "10-MB-in-3-s", "100-MB-in-30-s"],
    "fig09": ["convergence"],
    "fig10": ["importance-1", "importance-2", "importance-3"],
    "fig11": ["never", "kill"],
    "fig12": ["background-3", "background-6"],
    "fig13": ["datcp", "tcp"],
    "fig14": ["datcp", "all-may", "tcp", "untold"],
}


@pytest.mark.parametrize("name", FIGURES)
def test_plan__scenarios_into_one_link_of_the_papers_port(name: str) -> None:
    points = points_of(name)
    assert list(points) == [f"{folder}-seed1" for folder in FOLDERS[name]]
    for point in points.values():
        scenario, _, flows = flows_of(point)
        assert {flow.dst for flow in flows} == {"h1"}
        assert scenario.policy.buffer == 200_000
        transport = scenario.transport
        assert (transport.rto_min_ms, transport.max_window, scenario.sample_ms) == (10, 50, 100)
        if scenario.policy.scheme == "datcp":
            assert (scenario.policy.mark_min, scenario.policy.mark_max) == (80_000, 120_000)


@pytest.mark.parametrize("name", FIGURES)
def test_plan__on_the_simulator_the_papers_own_rate_and_sizes(name: str) -> None:
    for point in points_of(name, "--on", "simulator").values():
        _, topology, flows = flows_of(point)
        assert {(port.rate_bps, port.delay_ns) for port in topology.ports} == {(10**9, 75_000)}
        assert max(flow.bytes for flow in flows) >= 50_000_000


def test_fig08__three_with_the_deadline_three_endless() -> None:
    _, _, flows = flows_of(points_of("fig08")["10-MB-in-3-s-seed1"])
    assert sorted(flow.deadline_us or 0 for flow in flows) == [0, 0, 0, 3e6, 3e6, 3e6]
    assert len({flow.src for flow in flows}) == 6


def test_fig11__more_than_the_link_carries_in_time_three_of_them_not() -> None:
    _, _, flows = flows_of(points_of("fig11")["kill-seed1"])
    alone_s = max(flow.ideal_us for flow in flows) / 1e6
    assert len(flows) * alone_s > fig11.DEADLINE_S > 3 * alone_s
    assert {flow.quench for flow in flows} == {"kill"}


def test_fig13__the_same_flows_for_every_variant_and_sizes_in_bounds() -> None:
    assert fig13.draw_flows(1, 6, SMALL) == fig13.draw_flows(1, 6, SMALL)
    assert fig13.draw_flows(1, 6, SMALL) != fig13.draw_flows(2, 6, SMALL)
    drawn = fig13.draw_flows(3, 6, SMALL)
    assert [flow.kind for flow in drawn[::3]] == ["lax", "moderate", "tight"] * 2
    for flow in drawn:
        low, high = fig13.FACTORS[flow.kind]
        assert 1_000_000 <= flow.bytes <= 10_000_000
        assert low <= flow.deadline_s / (flow.bytes * 8e-6 / (SMALL.goodput_mbps / 6)) <= high + 1e-6


def test_fig13__at_full_rate_the_same_deadlines_for_ten_times_the_bytes() -> None:
    small, large = (fig13.draw_flows(3, 6, setup) for setup in (SMALL, FULL))
    for a, b in zip(small, large, strict=True):
        assert b.bytes == pytest.approx(10 * a.bytes, abs=10)
        assert b.deadline_s == pytest.approx(a.deadline_s, rel=1e-5)
    assert set(points_of("fig13", "--on", "simulator")) > set(points_of("fig13"))


def test_fig13__a_deadline_counts_even_where_the_kernel_was_not_told_it() -> None:
    timed = [fig13.Timed("lax", 1000, 1.0, 0.5), fig13.Timed("tight", 1000, 1.0, 0.4)]
    assert fig13.met([0.5], timed, "lax") == [True]
    assert fig13.met([None], timed, "tight") == [False]


def test_fig14__told_of_deadlines_or_not() -> None:
    points = points_of("fig14")
    assert {flow.deadline_us for flow in flows_of(points["datcp-seed1"])[2]} == {2e6, 5e6}
    assert {flow.deadline_us for flow in flows_of(points["tcp-seed1"])[2]} == {None}


@pytest.mark.parametrize("name", FIGURES)
def test_places__each_flow_of_a_run_is_one_of_the_scenario(name: str) -> None:
    for point in points_of(name).values():
        tables = point.document["workload"]["flow"]
        flows = flows_of(point)[2]
        rows = [{"id": f.id, "src": f.src, "started_at": 1e9 + f.start_s} for f in reversed(flows)]
        place = places(rows, tables)
        assert sorted(place.values()) == list(range(len(tables)))
        for flow in flows:
            table = tables[place[flow.id]]
            assert (table["from"], table.get("label", "")) == (flow.src, flow.label)
            assert time_ns("start", table["start"]) / 1e9 == flow.start_s


def test_jain() -> None:
    assert jain([5.0, 5.0, 5.0]) == 1
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain([0.0]) == 1


def test_full__claims_say_of_which_figure_they_are() -> None:
    claim = {"what": "a", "paper": "b", "measured": "c", "holds": True, "explanation": ""}
    [found] = full.claims({"datcp_fig09": {"claims": [claim]}})
    assert (found.what, found.holds) == ("datcp_fig09: a", True)
    assert [full.FIGURES[n].name for n in (8, 14)] == ["datcp_fig08", "datcp_fig14"]
