# SPDX-License-Identifier: Apache-2.0
"""The experiments on the scheme sluice: thresholds of PIAS, bounds by queueing theory, and effects of urgency."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.papers.sluice import bounds, conditions, deadlines, fct
from experiments.papers.sluice.bounds import Floats, Link
from sluice.policy import tags
from sluice.policy.schema.desired import queue_map
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.scenario import Scenario, scenario_from_document
from sluice.runs.files import load_cdf, scenario_with
from tests.kit.bundles import given

pytestmark = pytest.mark.slow


def scenarios(*words: str) -> dict[tuple[str, str, float | None], Scenario]:
    asked = given(fct.EXPERIMENT, "--seeds", "1", *words)
    return {
        (name, point.scheme, point.load): scenario_from_document(point.document, load_cdf)
        for name, group in fct.plan(asked).items()
        for point in group.points
    }


@pytest.mark.parametrize(
    ("group", "load", "first"),
    [("web search", 0.8, 909), ("loads", 0.9, 759), ("data mining", 0.8, 745)],
)
def test_plan__pias_has_its_authors_thresholds_and_fabric(group: str, load: float, first: int) -> None:
    scenario = scenarios("--groups", group)[group, "pias", load]
    assert (scenario.policy.thresholds[0] // 1460, scenario.policy.buffer) == (first, 360_000)
    assert (scenario.transport.rto_min_us, scenario.simulator.duplicate_threshold) == (2000, 0)
    assert scenario.simulator.packets_per_ack == 1


# ── sluice_bounds: known results of queueing theory, which its formulas must give ──────────────


LOAD = 0.7
PROBABILITY = (np.arange(1000) + 0.5) / 1000
EXPONENTIAL: Floats = -1e5 * np.log1p(-PROBABILITY)
HEAVY: Floats = 1e4 * (1 - PROBABILITY) ** -0.8


def test_exponential_sizes__every_order_without_sizes_has_the_same_mean() -> None:
    """The bytes sent say nothing about those left (Conway, Maxwell, Miller, 1967): E[S] / (1 - load)."""
    link = Link(EXPONENTIAL, LOAD)
    expected = link.flow.mean() / (1 - LOAD)
    for times in (bounds.processor_sharing, bounds.least_attained, bounds.gittins):
        assert times(link).mean() == pytest.approx(expected, rel=0.02)


def test_shortest_remaining_is_best_and_gittins_best_without_sizes() -> None:
    link = Link(HEAVY, LOAD)
    best = bounds.gittins(link).mean()
    assert bounds.shortest_remaining(link).mean() < best
    for times in (bounds.processor_sharing, bounds.least_attained, bounds.levels((100_000, 1_000_000))):
        assert best <= 1.01 * times(link).mean()


# ── sluice_conditions: the comparison is fair ─────────────────────────────────────────────────


def test_plan__all_schemes_have_the_same_flows_network_and_transport(tmp_path: Path) -> None:
    asked = given(conditions.EXPERIMENT, "--out", str(tmp_path), "--flows", "50", "--seeds", "1")
    planned = conditions.plan(asked)
    assert list(planned) == list(conditions.CONDITIONS)
    for group in planned.values():
        alike = [point for point in group.points if point.scheme != "pias-shallow"]
        others = [{k: v for k, v in p.document.items() if k not in ("scheme", "name")} for p in alike]
        assert all(one == others[0] for one in others)
        assert {p.document["workload"]["trace"] for p in group.points} == {others[0]["workload"]["trace"]}
        policies = {p.scheme: scenario_with(p.document)[0].policy for p in alike}
        buffers = {name: policy.buffer for name, policy in policies.items()}
        assert {name for name, size in buffers.items() if size != 1_950_000} == {"pias-deep", "sluice-deep"}
        assert policies["sluice-first"].thresholds[0] < policies["sluice"].thresholds[0]
        assert policies["pias-authors"].thresholds != policies["pias-best"].thresholds
        assert policies["sluice"].mark_by == "queue"
    mixed = scenario_with(planned["10, 40, 100 Gb/s"].points[0].document)[0]
    assert isinstance(mixed.workload, ExplicitWorkload)
    assert {flow.source for flow in mixed.workload.flows} <= {f"h{i}" for i in range(1, 17)}


# sluice_deadlines: one variant for each effect and value of the setting.


@pytest.mark.usefixtures("no_plugin_stays")
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
