# SPDX-License-Identifier: Apache-2.0
"""The experiments on Aemon: scenarios, figures of a run, claims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments.kit.runs import Results
from experiments.papers.aemon import common, fct, misses, ucp_share
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import SCENARIOS, load_cdf, read_document, scenario_with
from sluice.sweep import points
from tests.kit.finished_runs import claim, given, sweep_of
from tests.unit.experiments.kit.test_flows import written


@pytest.mark.parametrize("name", ["aemon", "aemon-data-mining"])
def test_scenarios__every_scheme_marks_at_the_slides_thresholds(name: str) -> None:
    schemes = fct.SCHEMES if name == "aemon" else misses.SCHEMES
    for point in points(read_document(SCENARIOS / f"{name}.toml"), schemes=schemes, loads=common.LOADS):
        policy = scenario_from_document(point.document, load_cdf).policy
        if point.scheme != "pfabric":
            assert (policy.mark_at, policy.mark_at_core) == (97_500, 375_000)


@pytest.mark.parametrize("settings", common.VARIED.values(), ids=list(common.VARIED))
def test_varied__is_a_scenario_and_another_one(settings: Mapping[str, Any]) -> None:
    document = read_document(SCENARIOS / "aemon.toml")
    (plain,), (varied,) = (
        points(document, schemes=["aemon"], loads=[0.8], settings=s) for s in ({}, settings)
    )
    assert plain.digest != varied.digest


def test_plan__one_thing_changed_at_one_load_unless_told_not_to() -> None:
    plan = common.plan("aemon", ["aemon"], ["aemon"])
    groups = plan(given(fct.EXPERIMENT))
    assert list(groups) == ["main", *common.VARIED]
    assert groups["70 % of the flows have one"].folder.name == "70-percent-of-the-flows-have-one"
    assert [{point.load for point in group.points} for group in groups.values()] == [
        set(common.LOADS),
        *[{0.8}] * 4,
    ]
    assert list(plan(given(fct.EXPERIMENT, "--no-variants"))) == ["main"]


def test_columns__tell_flows_with_a_deadline_from_those_without(tmp_path: Path) -> None:
    bundle = written(
        tmp_path,
        fct_us=[10.0, 20.0, None, 40.0],
        ideal_us=[5.0, 9.0, 9.0, 30.0],
        deadline_us=[None, 8.0, 50.0, 50.0],
        **{name: [None] * 4 for name in ("slowdown",)},
        id=["r/0", "r/1", "r/2", "r/3"],
        size_class=["small"] * 4,
        bytes=[1] * 4,
        started_at=[100.0] * 4,
        retransmissions=[0] * 4,
    )
    found = common.columns(bundle)
    assert found["fct_us_plain_mean"] == 10.0
    assert found["fct_us_timed_mean"] == 30.0
    assert found["impossible"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("share", "holds"), [(0.045, True), (0.06, False)])
def test_misses__best_of_those_that_know_no_size(share: float, holds: bool) -> None:
    missed = dict.fromkeys(misses.SCHEMES, 0.05) | {"aemon": share, "karuna": 0.04}
    runs = sweep_of(misses.SCHEMES, common.LOADS, ["miss_ratio", "impossible"], missed.get)
    claims = misses.claims_of(runs)
    assert claim(claims, "deadlines missed, best of the others").holds is holds
    assert claim(claims, "deadlines missed, Aemon over Karuna").holds is holds
    assert claim(claims, "deadlines missed, Sluice").measured.startswith("5.00, 5.00, 5.00, 5.00 % at loads")


@pytest.mark.parametrize(("aemon", "holds"), [(0.5, True), (0.9, False)])
def test_fct__claims_of_the_main_runs_and_of_the_varied_ones(aemon: float, holds: bool) -> None:
    times = dict.fromkeys(fct.SCHEMES, 1.0) | {"aemon": aemon}
    columns = [common.ALL, common.PLAIN]
    main, varied = (sweep_of(fct.SCHEMES, loads, columns, times.get) for loads in (common.LOADS, [0.8]))
    found = fct.claims(Results(given(fct.EXPERIMENT), {"main": main, "late flows stay urgent": varied}))
    assert claim(found, "average FCT, Aemon/PIAS").holds is holds
    assert claim(found, "late flows stay urgent").holds is holds


def test_ucp_share__each_pair_in_both_places() -> None:
    asked = given(ucp_share.EXPERIMENT, "--seeds", "1")
    found = ucp_share.plan(asked)[""].points
    assert len(found) == 2 * len(ucp_share.PAIRS)
    names = {point.name for point in found}
    assert {f"s-0.25-against-no-deadline-from-{host}-seed1" for host in ("h2", "h3")} <= names
    for point in found:
        scenario, *_ = scenario_with(point.document)
        assert scenario.policy.scheme == "ucp"


def test_ucp_share__the_law() -> None:
    assert ucp_share.predicted_share(0.2, 0.2) == pytest.approx(0.5)
    assert ucp_share.predicted_share(0.1, 0.2) > 0.5
    assert ucp_share.balanced([0.8, 0.2]) == pytest.approx(0.5)
