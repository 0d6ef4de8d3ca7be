# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes.classes import MOST_CLASSES, ClassPlan, best_of_plan, class_plan, coarse_map, lost
from sluice.policy.thresholds.online import DelayModel, delay_terms
from sluice.policy.thresholds.port_traffic import BUCKETS
from sluice.policy.thresholds.static import known_delays
from sluice.runs.files import load_cdf

PAPERS = [(name, load) for name in ("web-search", "data-mining") for load in (0.5, 0.8)]


def policy_of(scheme: str, **fields: object) -> Policy:
    return Policy.from_document({"scheme": scheme, **fields})


def models_of(policy: Policy, traffic: list[tuple[str, float]]) -> list[DelayModel]:
    levels, least = len(policy.thresholds) + 1, policy.least_threshold or 0
    return [known_delays(load_cdf(name), load, levels, 1.0, least) for name, load in traffic]


@cache
def plan_of(scheme: str, most: int = MOST_CLASSES, **fields: object) -> tuple[ClassPlan, list[DelayModel]]:
    policy = policy_of(scheme, **fields)
    models = models_of(policy, PAPERS)
    return class_plan(policy, models, most), models


def test_lost__eight_classes_cost_both_workloads_less_than_three_percent() -> None:
    plan, models = plan_of("sluice")
    assert plan.classes == MOST_CLASSES
    assert all(-1e-9 < loss < 0.03 for loss in lost(plan, models))


def test_lost__fewer_classes_cost_more() -> None:
    losses = [max(lost(*plan_of("mlfq-adaptive", most, queues=4))) for most in (8, 4, 2)]
    assert losses[0] < 0.01 < losses[1] < losses[2]


def test_class_plan__one_kind_of_traffic_loses_nothing() -> None:
    policy = policy_of("mlfq-adaptive", queues=4)
    (model,) = models_of(policy, PAPERS[:1])
    plan = class_plan(policy, [model])
    assert lost(plan, [model]) == pytest.approx([0], abs=1e-9)
    best, _ = delay_terms(model, 4).best()
    assert best_of_plan(plan, model) == tuple(tags.EDGES_BYTES[edge] for edge in best[0])


def test_class_plan__finds_the_best_pair_of_edges() -> None:
    policy = policy_of("mlfq-adaptive", queues=2)
    models = models_of(policy, [("web-search", 0.8), ("data-mining", 0.8)])
    terms = [delay_terms(model, 2) for model in models]
    least = [float(one.best()[1][0]) for one in terms]

    def cost(edges: tuple[int, ...]) -> float:
        return sum(float(one.best(edges)[1][0]) / best for one, best in zip(terms, least, strict=True))

    plan = class_plan(policy, models, most=3)
    found = tuple(tags.edge_index(edge) for edge in plan.edges_bytes)
    assert cost(found) <= min(map(cost, combinations(range(BUCKETS - 1), 2))) + 1e-9


@pytest.mark.parametrize("scheme", SCHEMES)
def test_class_plan__every_scheme_fits_into_eight_classes(scheme: str) -> None:
    plan, _ = plan_of(scheme)
    assert len(plan.class_of_tag) == tags.TAG_COUNT
    assert set(plan.class_of_tag) == set(range(plan.classes))
    assert plan.classes <= MOST_CLASSES


EDGES = st.deferred(lambda: st.sampled_from(plan_of("sluice")[0].edges_bytes))


@given(st.lists(EDGES, min_size=5, max_size=5).map(sorted))
def test_queue_of_class__is_the_queue_of_each_tag(thresholds: list[int]) -> None:
    plan, _ = plan_of("sluice")
    of_class = plan.queue_of_class(thresholds)
    assert [of_class[one] for one in plan.class_of_tag] == list(coarse_map(plan.policy, thresholds))


def test_coarse_map__urgency_has_two_steps_and_the_rest_is_unchanged() -> None:
    policy = policy_of("aemon")
    coarse, exact = (rule(policy, policy.thresholds) for rule in (coarse_map, queue_map))
    first, end = tags.URGENCY_FIRST, tags.URGENCY_LAST + 1
    assert coarse[first:end] == (5,) * 8 + (1,) * 8
    assert coarse[:first] + coarse[end:] == exact[:first] + exact[end:]


def test_snapped__a_threshold_becomes_the_nearest_edge() -> None:
    plan, _ = plan_of("sluice")
    low, *_, high = plan.edges_bytes
    assert plan.snapped([1, low * 1.05, 10 * high]) == (low, low, high)


def test_snapped__thresholds_of_a_static_scheme_stay_its_own() -> None:
    policy = policy_of("pias", queues=3, thresholds=["10KB", "1MB"])
    plan = class_plan(policy, [])
    assert plan.snapped(policy.thresholds) == plan.edges_bytes == (10_000, 1_000_000)
    assert np.unique(plan.queue_of_class(plan.edges_bytes)).tolist() == [0, 1, 2]
