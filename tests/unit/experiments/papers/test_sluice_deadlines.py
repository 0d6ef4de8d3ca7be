# SPDX-License-Identifier: Apache-2.0
"""sluice_deadlines: one variant for each value of the setting, and claims about the curve."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.kit.runs import Results, Runs
from experiments.papers.sluice import deadlines, fct
from sluice.policy import tags
from sluice.policy.schema.desired import queue_map
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import load_cdf
from tests.kit.finished_runs import claim, given, run_of

pytestmark = pytest.mark.usefixtures("no_plugin_stays")


def test_plan__one_run_for_each_value() -> None:
    points = deadlines.plan(given(deadlines.EXPERIMENT))[""].points
    found = {point.scheme: scenario_from_document(point.document, load_cdf).policy for point in points}
    after = {name: policy.urgent_after for name, policy in found.items() if name.startswith("sluice")}
    assert list(after.values()) == [0, 100_000, 10**6, 3 * 10**6, 10**7]
    assert set(found) - set(after) == {"pias", "karuna"}


def test_plan__one_run_for_each_effect_and_value() -> None:
    words = ("--effects", *deadlines.EFFECTS, "--urgent-after", "1MB", "--small", "--flows", "9")
    points = deadlines.plan(given(deadlines.EXPERIMENT, *words))[""].points
    found = {point.scheme: scenario_from_document(point.document, load_cdf) for point in points}
    controls = {
        name: one.policy.definition.control.name for name, one in found.items() if name.startswith("sluice")
    }
    assert controls == {
        "sluice-1MB": "ucp",
        "sluice-dctcp-1MB": "dctcp",
        "sluice-d2tcp-1MB": "d2tcp",
        "sluice-levels-1MB": "ucp",
    }
    policies = {name: one.policy for name, one in found.items()}
    maps = {
        name: queue_map(policy, policy.thresholds) for name, policy in policies.items() if name in controls
    }
    urgent = {name: set(found[tags.URGENCY_FIRST : tags.URGENCY_LAST + 1]) for name, found in maps.items()}
    assert urgent == {name: {1} for name in controls} | {"sluice-levels-1MB": {1, 2, 3, 4}}
    assert {one.fabric.parameters["leaves"] for one in found.values()} == {2}
    ours = [one.policy for name, one in found.items() if name.startswith("sluice")]
    assert len({(policy.growth, policy.thresholds, policy.mark_by) for policy in ours}) == 1


def results(missed: float) -> Results:
    columns = [*deadlines.SHOWN.values(), deadlines.HOPELESS]
    asked = given(deadlines.EXPERIMENT, "--effects", "ucp", "dctcp")
    names = [*deadlines.ours(asked), *deadlines.OTHERS]
    rows: dict[str, dict[str, Any]] = {
        name: dict.fromkeys(columns, 0.8) | {fct.MISSES: missed} for name in names
    }
    rows["pias"] = dict.fromkeys(columns, 1.0)
    rows["karuna"] |= {fct.MISSES: 0.02}
    return Results(asked, {"": Runs([run_of(n, 0.8, **row) for n, row in rows.items()])})


@pytest.mark.parametrize(("missed", "holds"), [(0.01, True), (0.03, False)])
def test_claims__the_ends_of_the_curve(missed: float, holds: bool) -> None:
    claims = deadlines.claims(results(missed))
    assert claim(claims, "fewest deadlines").holds is holds
    assert claim(claims, "least mean FCT").holds


def test_table_and_figure__show_every_run() -> None:
    found = results(0.01)
    assert deadlines.table(found).count("\n") == 2 + len(found.runs.variants)
    deadlines.draw(found)
