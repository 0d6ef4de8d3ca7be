# SPDX-License-Identifier: Apache-2.0
"""sluice_fct: its variants differ in what their names say, and its goals are ratios under the same traffic."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.kit.runs import Results
from experiments.papers.sluice import fct
from sluice.policy.workload.scenario import Scenario, scenario_from_document
from sluice.runs.files import load_cdf
from tests.kit.finished_runs import claim, given, sweep_of

FIGURES = [*fct.SHOWN.values(), *(f"interval {i}" for i in range(1, len(fct.EDGES)))]


def scenarios(*words: str) -> dict[tuple[str, str, float | None], Scenario]:
    asked = given(fct.EXPERIMENT, "--seeds", "1", *words)
    return {
        (name, point.scheme, point.load): scenario_from_document(point.document, load_cdf)
        for name, group in fct.plan(asked).items()
        for point in group.points
    }


def test_plan__each_group_has_its_schemes_and_loads() -> None:
    found = scenarios()
    for name, group in fct.GROUPS.items():
        expected = {(name, scheme, load) for scheme in group.schemes for load in group.loads}
        assert {key for key in found if key[0] == name} == expected


def test_plan__sluice_marks_by_queue_unless_its_buffer_is_small() -> None:
    found = scenarios("--groups", "web search")
    deep, shallow = (found["web search", name, 0.8].policy for name in ("sluice", "sluice-shallow"))
    assert (deep.mark_by, deep.buffer, deep.growth) == ("queue", 1_950_000, 8)
    assert (shallow.mark_by, shallow.buffer, shallow.growth) == ("port", 360_000, 8)


@pytest.mark.parametrize(
    ("group", "load", "first"),
    [("web search", 0.8, 909), ("loads", 0.6, 956), ("loads", 0.9, 759), ("data mining", 0.8, 745)],
)
def test_plan__pias_has_its_authors_thresholds_and_fabric(group: str, load: float, first: int) -> None:
    scenario = scenarios("--groups", group)[group, "pias", load]
    assert (scenario.policy.thresholds[0] // 1460, scenario.policy.buffer) == (first, 360_000)
    assert (scenario.transport.rto_min_us, scenario.simulator.duplicate_threshold) == (2000, 0)
    assert scenario.simulator.packets_per_ack == 1


def results(values: dict[str, float], *groups: str) -> Results:
    def value(scheme: str) -> Any:
        return values.get(scheme, 1.0)

    return Results(
        given(fct.EXPERIMENT),
        {
            name: sweep_of(fct.GROUPS[name].schemes, fct.GROUPS[name].loads, [*FIGURES, "unfinished"], value)
            for name in groups
        },
    )


@pytest.mark.parametrize(("sluice", "holds"), [(0.87, True), (0.89, False)])
def test_claims__ratios_to_pias(sluice: float, holds: bool) -> None:
    claims = fct.claims(results({"sluice": sluice, "pfabric": 0.9}, "web search"))
    [found] = [c for c in claims if c.what == "all, over PIAS"]
    assert (found.measured, found.holds) == (f"{sluice:.3f}", holds)


def test_claims__told_sizes_need_the_runs_without_them() -> None:
    assert not any("told" in c.what for c in fct.claims(results({}, "web search")))
    both = fct.claims(results({"sluice-told-50": 0.7}, "web search", "told"))
    assert claim(both, "half told: all, over PIAS").holds


def test_table_and_figure__show_every_scheme() -> None:
    found = results({"sluice": 0.5}, "web search", "ablations")
    table = fct.table(found)
    assert all(f"| {scheme} | 0.8 |" in table for scheme in fct.GROUPS["ablations"].schemes)
    fct.draw(found)
