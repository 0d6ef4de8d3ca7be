# SPDX-License-Identifier: Apache-2.0
"""The experiments on the scheme sluice compare fairly."""

from pathlib import Path

import pytest

from experiments.papers.sluice import conditions, fct
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
