# SPDX-License-Identifier: Apache-2.0
"""Experiments over loads: ratios are paired by seed, and the scenarios of the 144-host experiments are the papers'."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.kit.runs import ByLoad, Panel, line_of, over_loads, plot
from experiments.papers.aemon import common as aemon
from experiments.papers.aemon import fct as aemon_fct
from experiments.papers.aemon import misses as aemon_misses
from experiments.papers.pias import pias_144
from policy.scenario import scenario_from_document
from sluice.runs.files import SCENARIOS, load_cdf, read_document
from sluice.sweep import points


def made(values):
    """Rows from {(scheme, load, seed): value}."""
    return ByLoad(
        [
            {"scheme": scheme, "load": load, "seed": seed, "x": value, "unfinished": 0}
            for (scheme, load, seed), value in values.items()
        ]
    )


RUNS = made(
    {
        ("a", 0.5, 2): 30.0,
        ("a", 0.5, 1): 10.0,
        ("b", 0.5, 1): 20.0,
        ("b", 0.5, 2): 120.0,
        ("a", 0.8, 1): 1.0,
        ("a", 0.8, 2): 3.0,
        ("b", 0.8, 1): 1.0,
        ("b", 0.8, 2): 1.0,
    }
)


def test_ratios__of_the_same_seed():
    assert RUNS.ratios("x", "a", "b", 0.5) == [0.5, 0.25]
    assert RUNS.ratio_by_load("x", "a", "b") == {0.5: 0.375, 0.8: 2.0}


def test_over_loads__says_which():
    assert over_loads({0.5: 0.375, 0.8: 2.0}) == "0.38, 2.00 at loads 0.5, 0.8"
    assert over_loads({0.8: 2.0}) == "2.00 at load 0.8"


def test_figures__by_scheme_and_load():
    assert RUNS.figures({"what": "x"})["a"] == {"0.5": {"what": [10.0, 30.0]}, "0.8": {"what": [1.0, 3.0]}}


def test_plot__a_row_a_workload(tmp_path):
    lines = {"a": line_of("pias"), "b": line_of("dctcp")}
    plot([("one", RUNS), ("two", RUNS)], [Panel("x", "x", "ms", 1.0, log=True)], lines, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", pias_144.WORKLOADS.values())
def test_pias_144__every_point_is_the_authors_set_up(name):
    for point in points(
        read_document(SCENARIOS / f"{name}.toml"), schemes=pias_144.SCHEMES, loads=pias_144.LOADS
    ):
        scenario = scenario_from_document(point.document, load_cdf)
        small = point.scheme == "pfabric"
        assert scenario.policy.buffer == (210_000 if small else 360_000)
        assert scenario.transport.rto_min_us == (250 if small else 2000)
        assert (scenario.transport.initial_window, scenario.simulator.duplicate_threshold) == (70, 0)
        if point.scheme == "pias":
            assert all(threshold % 1460 == 0 for threshold in scenario.policy.thresholds)


def test_pias_144__thresholds_are_those_of_the_load():
    document = read_document(SCENARIOS / "pias-144.toml")
    of_load = {
        load: scenario_from_document(points(document, schemes=["pias"], loads=[load])[0].document, load_cdf)
        for load in pias_144.LOADS
    }
    first = [of_load[load].policy.thresholds[0] // 1460 for load in pias_144.LOADS]
    assert first == [1059, 956, 999, 909, 759]


def claim(claims, start):
    (found,) = [c for c in claims if c.what.startswith(start)]
    return found


def sweep_of(schemes, loads, column, value):
    return [
        {"scheme": scheme, "load": load, "seed": seed, "unfinished": 0, **{c: value(scheme) for c in column}}
        for scheme in schemes
        for load in loads
        for seed in (1, 2, 3)
    ]


FCT = [f"fct_us_{group}_{name}" for group in ("small", "medium", "large", "all") for name in ("mean", "p99")]


@pytest.mark.parametrize(("pias", "holds"), [(0.5, True), (0.7, False), (1.2, False)])
def test_pias_144__half_of_dctcp_is_the_claim(pias, holds):
    times = {"dctcp": 1.0, "pias": pias, "pfabric": pias}
    runs = ByLoad(sweep_of(pias_144.SCHEMES, (0.5, 0.8), FCT, times.get))
    claims = pias_144.claims_of("web search", runs)
    assert claim(claims, "web search: small mean, PIAS/DCTCP").holds is holds
    assert claim(claims, "web search: small mean, PIAS/pFabric").holds


@pytest.mark.parametrize("name", ["aemon", "aemon-data-mining"])
def test_aemon__every_scheme_marks_at_the_slides_thresholds(name):
    schemes = aemon_fct.SCHEMES if name == "aemon" else aemon_misses.SCHEMES
    for point in points(read_document(SCENARIOS / f"{name}.toml"), schemes=schemes, loads=aemon.LOADS):
        policy = scenario_from_document(point.document, load_cdf).policy
        if point.scheme != "pfabric":
            assert (policy.mark_at, policy.mark_at_core) == (97_500, 375_000)


@pytest.mark.parametrize("settings", aemon.VARIED.values(), ids=list(aemon.VARIED))
def test_aemon__what_is_varied_is_a_scenario_and_another_one(settings):
    document = read_document(SCENARIOS / "aemon.toml")
    (plain,), (varied,) = (
        points(document, schemes=["aemon"], loads=[0.8], settings=s) for s in ({}, settings)
    )
    assert plain.digest != varied.digest


def test_aemon__figures_tell_flows_with_a_deadline_from_those_without(tmp_path):
    flows = {
        "fct_us": [10.0, 20.0, None, 40.0],
        "ideal_us": [5.0, 9.0, 9.0, 30.0],
        "deadline_us": [None, 8.0, 50.0, 50.0],
    }
    pq.write_table(pa.table(flows), tmp_path / "flows.parquet")
    found = aemon.figures(tmp_path)
    assert found["fct_us_plain_mean"] == 10.0
    assert found["fct_us_timed_mean"] == 30.0
    assert found["impossible"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("aemon_misses_share", "holds"), [(0.045, True), (0.06, False)])
def test_aemon_misses__best_of_those_that_know_no_size(aemon_misses_share, holds):
    missed = dict.fromkeys(aemon_misses.SCHEMES, 0.05) | {"aemon": aemon_misses_share, "karuna": 0.04}
    runs = ByLoad(sweep_of(aemon_misses.SCHEMES, aemon.LOADS, ["miss_ratio", "impossible"], missed.get))
    claims = aemon_misses.claims_of(runs)
    assert claim(claims, "deadlines missed, best of the others").holds is holds
    assert claim(claims, "deadlines missed, Aemon over Karuna").holds is holds
