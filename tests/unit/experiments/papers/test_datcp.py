# SPDX-License-Identifier: Apache-2.0
"""The experiments on DATCP: their scenarios are valid, their series say what happened."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.kit.verdict import Claim, conclude
from experiments.papers.datcp import fig08, fig09, fig10, fig11, fig12, fig13, fig14
from experiments.papers.datcp.common import (
    FULL,
    SMALL,
    Run,
    Sent,
    column,
    describe,
    jain,
    mean_rate_mbps,
    places,
    rates,
)
from experiments.papers.datcp.table import rows
from policy.scenario import scheduled_flows
from policy.units import time_ns
from sluice.runs.files import scenario_with
from topologies import build_topology

DOCUMENTS = {
    "fig08": fig08._document(fig08.cases(SMALL)[2], 1),
    "fig09": fig09._document(1),
    "fig10": fig10._document(3, 1),
    "fig11": fig11._document("kill", 1),
    "fig12": fig12._document(6, 1),
    "fig13": fig13._document("datcp", 1, 6),
    "fig14": fig14._document("datcp", 1),
    "fig14-tcp": fig14._document("tcp", 1),
}


def flows_of(name):
    scenario, _ = scenario_with(DOCUMENTS[name])
    topology = build_topology(scenario)
    return scenario, topology, scheduled_flows(scenario, topology, np.random.default_rng(), "run")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents__are_scenarios_into_one_link_of_the_papers_port(name):
    scenario, _, flows = flows_of(name)
    assert {flow.dst for flow in flows} == {"h1"}
    assert scenario.policy.buffer == 200_000
    assert (scenario.transport.rto_min_ms, scenario.transport.max_window, scenario.sample_ms) == (10, 50, 100)
    if scenario.policy.scheme == "datcp":
        assert (scenario.policy.mark_min, scenario.policy.mark_max) == (80_000, 120_000)


def test_fig08__three_with_the_deadline_three_endless():
    flows = flows_of("fig08")[2]
    assert sorted(flow.deadline_us or 0 for flow in flows) == [0, 0, 0, 3e6, 3e6, 3e6]
    assert len({flow.src for flow in flows}) == 6


def test_fig11__more_than_the_link_carries_in_time_three_of_them_not():
    flows = flows_of("fig11")[2]
    alone_s = max(flow.ideal_us for flow in flows) / 1e6
    assert len(flows) * alone_s > fig11.DEADLINE_S > 3 * alone_s
    assert {flow.quench for flow in flows} == {"kill"}


def test_fig13__the_same_plan_for_every_variant_and_sizes_in_bounds():
    assert fig13.plan(1, 6) == fig13.plan(1, 6)
    assert fig13.plan(1, 6) != fig13.plan(2, 6)
    planned = fig13.plan(3, 6)
    assert [flow.kind for flow in planned[::3]] == ["lax", "moderate", "tight"] * 2
    for flow in planned:
        low, high = fig13.FACTORS[flow.kind]
        assert 1_000_000 <= flow.bytes <= 10_000_000
        assert low <= flow.deadline_s / (flow.bytes * 8e-6 / (SMALL.goodput_mbps / 6)) <= high + 1e-6


def test_fig13__at_full_rate_the_same_deadlines_for_ten_times_the_bytes():
    small, full = fig13.plan(3, 6), fig13.plan(3, 6, FULL)
    for a, b in zip(small, full, strict=True):
        assert b.bytes == pytest.approx(10 * a.bytes, abs=10)
        assert b.deadline_s == pytest.approx(a.deadline_s, rel=1e-5)
    assert set(fig13.variants(FULL)) > set(fig13.variants(SMALL))


def test_fig13__a_deadline_counts_even_where_nobody_told_it():
    planned = [fig13.Planned("lax", 1000, 1.0, 0.5), fig13.Planned("tight", 1000, 1.0, 0.4)]
    flows = [Sent("lax", 1000, 1.0, 0.5, None, None, ""), Sent("tight", 1000, 1.0, None, None, None, "")]
    run = Run("made", 1, flows, [[], []], [], 0, 0)
    assert fig13.met(run, planned, "lax") == [True]
    assert fig13.met(run, planned, "tight") == [False]


@pytest.mark.parametrize("figure", [fig08, fig09, fig10, fig11, fig12, fig13, fig14])
def test_documents__at_full_rate_are_the_papers(figure):
    made = {
        fig08: lambda: fig08._document(fig08.cases(FULL)[2], 1, FULL),
        fig09: lambda: fig09._document(1, FULL),
        fig10: lambda: fig10._document(3, 1, FULL),
        fig11: lambda: fig11._document("kill", 1, FULL),
        fig12: lambda: fig12._document(6, 1, FULL),
        fig13: lambda: fig13._document("d3", 1, 6, FULL),
        fig14: lambda: fig14._document("datcp", 1, FULL),
    }[figure]()
    scenario, _ = scenario_with(made)
    topology = build_topology(scenario)
    assert {(port.rate_bps, port.delay_ns) for port in topology.ports} == {(10**9, 75_000)}
    sizes = {flow.bytes for flow in scheduled_flows(scenario, topology, np.random.default_rng(), "run")}
    assert max(sizes) >= 50_000_000


def test_fig14__told_of_deadlines_or_not():
    assert {flow.deadline_us for flow in flows_of("fig14")[2]} == {2e6, 5e6}
    assert {flow.deadline_us for flow in flows_of("fig14-tcp")[2]} == {None}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_places__each_flow_of_a_run_is_one_of_the_document(name):
    tables = DOCUMENTS[name]["workload"]["flow"]
    flows = flows_of(name)[2]
    rows = [{"id": flow.id, "src": flow.src, "started_at": 1e9 + flow.start_s} for flow in reversed(flows)]
    place = places(rows, tables)
    assert sorted(place.values()) == list(range(len(tables)))
    for flow in flows:
        table = tables[place[flow.id]]
        assert (table["from"], table.get("label", "")) == (flow.src, flow.label)
        assert time_ns("start", table["start"]) / 1e9 == flow.start_s


def made(*samples):
    """A run of one flow that began at 1 s: samples are (seconds, acknowledged bytes)."""
    flow = Sent("x", 1_000_000, 1.0, 0.5, None, None, "")
    taken = [{"at_s": at_s, "acked_bytes": acked, "precedence": None} for at_s, acked in samples]
    return Run("made", 1, [flow], [taken], [], 0, 0)


def test_rates__between_samples_and_from_the_start():
    times, values = rates(made((1.1, 100_000), (1.2, 300_000)), 0)
    assert list(times) == pytest.approx([1.05, 1.15])
    assert list(values) == pytest.approx([8.0, 16.0])


def test_mean_rate__between_any_two_times():
    run = made((1.1, 100_000), (1.2, 300_000))
    assert mean_rate_mbps(run, 0, 1.0, 1.2) == pytest.approx(12.0)
    assert mean_rate_mbps(run, 0, 1.05, 1.15) == pytest.approx(12.0)


def test_column__only_where_it_is_known():
    times, values = column(made((1.1, 1)), 0, "precedence")
    assert len(times) == len(values) == 0


def test_jain():
    assert jain([5.0, 5.0, 5.0]) == 1
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain([0.0]) == 1


def test_describe():
    assert describe(Sent("x", 10_000_000, 0, 3.456, None, None, "")) == "10 MB in 3.46 s"
    assert describe(Sent("x", 10_000_000, 0, None, 1.0, False, "quenched")) == "10 MB quenched"


def test_table__every_claim_is_a_row(tmp_path, capsys):
    folder = tmp_path / "datcp_fig09"
    folder.mkdir()
    conclude(folder, "datcp_fig09", [Claim("a", "b", "c", True), Claim("d", "e", "f", False)], {})
    assert list(rows(tmp_path)) == ["| 9 | a | b | c | yes |", "| 9 | d | e | f | **no** |"]
