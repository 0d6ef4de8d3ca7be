# SPDX-License-Identifier: Apache-2.0
"""sluice_conditions and sluice_deadlines: traffic, runs, and what they compare."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiments.papers.sluice import conditions, deadlines
from experiments.papers.sluice.traffic import ANSWER_BYTES, Incasts, Traffic
from sluice.policy import tags
from sluice.policy.schema.desired import queue_map
from sluice.policy.units import WIRE_PER_PAYLOAD
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.scenario import scenario_from_document
from sluice.policy.workload.sizes import SizeCdf
from sluice.runs.files import load_cdf, scenario_with
from tests.kit.finished_runs import given

# sluice_conditions: its traffic, its runs, and what it compares.


EVEN = SizeCdf("all of one size", (1e6, 1e6), (0.0, 1.0))
MIXED = (10**10, 10**10, 10**10, 4 * 10**10)


def test_flows__load_the_busiest_link_as_asked() -> None:
    flows = np.asarray(Traffic(EVEN, 0.6, MIXED).flows(40_000, seed=1))
    bits_per_s = 8 * WIRE_PER_PAYLOAD * 1e6 * len(flows) / (flows[-1, 0] / 1e9)
    received = np.bincount(flows[:, 2]) / len(flows) * bits_per_s / np.asarray(MIXED)
    assert received.max() == pytest.approx(0.6, rel=0.03)
    assert (flows[:, 1] != flows[:, 2]).all()
    assert np.bincount(flows[:, 1])[3] > 2 * np.bincount(flows[:, 1])[0]


def test_flows__the_answers_to_a_request_come_together_from_all_other_hosts_in_turn() -> None:
    flows = Traffic(EVEN, 0.6, MIXED, Incasts(5, 0.05)).flows(500, seed=2)
    answers = [flow for flow in flows if flow[3] == ANSWER_BYTES]
    for at in {flow[0] for flow in answers}:
        some = [flow for flow in answers if flow[0] == at]
        assert len(some) == 5
        (receiver,) = {to for _, _, to, _ in some}
        senders = Counter(source for _, source, _, _ in some)
        assert set(senders) == set(range(4)) - {receiver}
        assert max(senders.values()) == 2
    asked = sum(flow[3] for flow in answers) / sum(flow[3] for flow in flows)
    busy = (
        0.05
        * sum(MIXED)
        / (0.05 * sum(MIXED) + Traffic(EVEN, 0.6, MIXED).flows_per_s * 8e6 * WIRE_PER_PAYLOAD)
    )
    assert asked == pytest.approx(busy, rel=0.2)


def test_all_sizes__have_the_share_of_answers() -> None:
    sizes = Traffic(EVEN, 0.6, MIXED, Incasts(5, 0.05)).all_sizes
    drawn = sizes.at(np.linspace(0, 1, 100_000, endpoint=False))[0]
    flows = np.asarray(Traffic(EVEN, 0.6, MIXED, Incasts(5, 0.05)).flows(2000, seed=3))
    assert (drawn == ANSWER_BYTES).mean() == pytest.approx((flows[:, 3] == ANSWER_BYTES).mean(), rel=0.1)
    assert Traffic(EVEN, 0.6, MIXED).all_sizes is EVEN


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


def test_columns__a_request_ends_with_its_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Three:
        started_s, fct_us = np.asarray([0.1, 0.2, 0.2, 0.2]), np.asarray([900.0, 5.0, 30.0, 7.0])

    monkeypatch.setattr(conditions, "read_flows", lambda bundle: Three)
    assert conditions.columns(Path()) == {"request_mean": 30.0, "request_p99": 30.0}
    Three.started_s = np.asarray([0.1, 0.2, 0.3, 0.4])
    assert all(np.isnan(value) for value in conditions.columns(Path()).values())


# sluice_deadlines: one variant for each value of the setting, and claims about the curve.


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
