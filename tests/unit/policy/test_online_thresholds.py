# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations_with_replacement
from math import inf
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.thresholds import online
from sluice.policy.thresholds.port_traffic import BUCKETS, EDGES, FlowSizes
from tests.kit.flows import mean_slowdown

Floats = npt.NDArray[np.float64]


def model_of(
    sizes_bytes: npt.ArrayLike,
    shares: npt.ArrayLike,
    load: float,
    levels: int,
    above: Sequence[float] | None = None,
) -> online.DelayModel:
    """Return the delay model of one port, for flows whose sizes are edges."""
    other = np.zeros((1, levels)) if above is None else np.asarray([above])
    return online.delay_model(*measured(sizes_bytes, shares, load), other)


def measured(
    sizes_bytes: npt.ArrayLike, flows: npt.ArrayLike, load: float
) -> tuple[FlowSizes, npt.NDArray[np.float64]]:
    """Return what a port measures: flows by bucket, and the load up to each edge."""
    sizes, flows = np.asarray(sizes_bytes, float), np.asarray(flows, float)
    ends = np.zeros((1, BUCKETS))
    np.add.at(ends[0], np.searchsorted(EDGES, sizes), flows)
    up_to = np.minimum(sizes[:, None], EDGES[None]).T @ flows
    return FlowSizes(ends, EDGES[None]), load * up_to[None] / up_to[-1]


PER_PORT = ("load", "area", "weight", "weighted_bytes", "weighted_load", "above")
"""Fields of a model with a row for each port."""


def edge(size_bytes: int) -> int:
    return tags.edge_index(size_bytes)


PAPER_MIX = ([10_000, 1_000_000], [0.8, 0.2])


def test_best_thresholds__flows_of_one_size_share_one_level() -> None:
    """Unequal treatment of equal flows gains nothing."""
    best, cost = online.delay_terms(model_of([1_000_000], [1.0], 0.8, 2), 2).best()
    assert best[0, 0] >= edge(1_000_000)
    assert cost[0] == pytest.approx(1_000_000 / 0.2 / (1_000_000 + online.FLOOR_BYTES))


sizes = st.lists(st.sampled_from(tags.EDGES_BYTES), min_size=1, max_size=8, unique=True)


@settings(deadline=None, max_examples=20)
@given(sizes, st.randoms(use_true_random=False), st.floats(0.05, 1.2), st.integers(2, 4))
def test_best_thresholds__nothing_is_better(
    sizes_bytes: list[int], random: Random, load: float, levels: int
) -> None:
    """Compared with all thresholds on some of the edges, and with random ones on all of them."""
    model = model_of(sizes_bytes, [random.random() + 0.01 for _ in sizes_bytes], load, levels)
    terms = online.delay_terms(model, levels)
    best, cost = terms.best()
    assert terms.cost(best) == pytest.approx(cost)
    assert (np.diff(best, axis=1) >= 0).all()
    some = sorted(random.sample(range(BUCKETS), 6))
    for other in combinations_with_replacement(some, levels - 1):
        assert terms.cost(np.asarray([other]))[0] >= cost[0] * (1 - 1e-9)


@settings(deadline=None, max_examples=20)
@given(sizes, st.floats(0.05, 0.95), st.integers(1, 10**8), st.integers(1, 10**8))
def test_best_thresholds__nothing_is_better_between_the_limits(
    sizes_bytes: list[int], load: float, one: int, other: int
) -> None:
    least, most = min(one, other), max(one, other)
    model = model_of(sizes_bytes, [1.0] * len(sizes_bytes), load, 3)
    best, cost = online.delay_terms(replace(model, least_bytes=least, most_bytes=most), 3).best()
    allowed = [i for i, edge in enumerate(tags.EDGES_BYTES) if least <= edge <= most]
    if not allowed:  # then the first edge from `least` on is the only one
        allowed = [next((i for i, edge in enumerate(tags.EDGES_BYTES) if edge >= least), BUCKETS - 1)]
    assert set(best[0]) <= set(allowed)
    unlimited = online.delay_terms(model, 3)
    for choice in combinations_with_replacement(allowed[::4], 2):
        assert unlimited.cost(np.asarray([choice]))[0] >= cost[0] * (1 - 1e-9)
    if allowed[0]:
        below = np.asarray([[allowed[0] - 1, allowed[0]]])
        assert np.isinf(mean_slowdown(replace(model, least_bytes=least, most_bytes=most), below)[0])


def test_worthwhile_thresholds__a_threshold_above_the_limit_is_given_up() -> None:
    """Even if the others gain nothing by it."""
    model = model_of(*PAPER_MIX, 0.8, 2)
    best, _ = online.delay_terms(model, 2).best()
    assert online.worthwhile_thresholds(model, best).tolist() == best.tolist()
    limited = replace(model, most_bytes=5000.0)
    assert online.worthwhile_thresholds(limited, best).tolist() == [[edge(4217)]]


def test_best_thresholds__are_edges_even_if_the_first_level_is_better_empty() -> None:
    """Traffic that is served before the first level alone would slow every flow there."""
    best, _ = online.delay_terms(model_of(*PAPER_MIX, 0.3, 3, above=[0.5, 0.0, 0.0]), 3).best()
    assert best[0, 0] == 0


def test_best_thresholds__one_level_has_none_at_any_number_of_ports() -> None:
    one = model_of(*PAPER_MIX, 0.8, 1)
    twice: dict[str, Any] = {n: np.repeat(getattr(one, n), 2, axis=0) for n in PER_PORT}
    two = replace(one, **twice)
    best, cost = online.delay_terms(two, 1).best()
    assert (best.shape, cost.shape) == ((2, 0), (2,))
    assert online.worthwhile_thresholds(two, best).shape == (2, 0)


def test_terms__the_best_among_some_edges_or_the_last() -> None:
    model = model_of(EDGES[[12, 25, 38]], [0.8, 0.1, 0.1], 0.8, 3)
    assert online.delay_terms(model, 3).best()[0].tolist() == [[12, 25]]
    some = [3, 11, 14, 30]
    best, cost = online.delay_terms(model, 3).best(some)
    assert set(best[0]) <= {*some, BUCKETS - 1}
    for other in combinations_with_replacement([*some, BUCKETS - 1], 2):
        assert mean_slowdown(model, np.asarray([other]))[0] >= cost[0] * (1 - 1e-9)


def test_cost_of__one_level_is_processor_sharing() -> None:
    """The slowdown is 1 / (1 - load) for any sizes."""
    model = model_of(*PAPER_MIX, 0.8, 1)
    expected = sum(p * s / 0.2 / (s + online.FLOOR_BYTES) for s, p in zip(*PAPER_MIX, strict=True))
    assert mean_slowdown(model, np.zeros((1, 0), np.int64))[0] == pytest.approx(expected)


def test_cost_of__beyond_full_load_stays_finite_and_comparable() -> None:
    """As at a load of 0.95."""
    choice = np.asarray([[edge(10_000)]])
    full = mean_slowdown(model_of(*PAPER_MIX, 0.95, 2), choice)
    for load in (0.96, 0.99, 3.0):
        assert mean_slowdown(model_of(*PAPER_MIX, load, 2), choice) == pytest.approx(full)


def test_cost_of__traffic_that_goes_before_a_level_slows_it() -> None:
    choice = np.asarray([[edge(10_000)]])
    alone = mean_slowdown(model_of(*PAPER_MIX, 0.5, 2), choice)[0]
    assert mean_slowdown(model_of(*PAPER_MIX, 0.5, 2, above=[0.0, 0.3]), choice)[0] > alone * 1.02


def fluid_times(sizes: Floats, arrivals: Floats, threshold: int) -> Floats:
    """Return how long each flow takes from its arrival. The link carries one byte in a unit of time.

    The first bytes of a flow, up to the threshold, are in a queue before all others. The flows of a queue share it.
    """
    # Of each queue: bytes that a flow which was always there has got, and a heap of (value of `served` at which a flow
    # has got its part, flow).
    served = [0.0, 0.0]
    waiting: list[list[tuple[float, int]]] = [[], []]
    took, now, coming = np.empty(len(sizes)), 0.0, 0
    while True:
        queue = next((queue for queue in (0, 1) if waiting[queue]), None)
        arrives = arrivals[coming] if coming < len(sizes) else inf
        left = inf if queue is None else (waiting[queue][0][0] - served[queue]) * len(waiting[queue])
        if now + left > arrives:
            if queue is not None:
                served[queue] += (arrives - now) / len(waiting[queue])
            now = arrives
            heappush(waiting[0], (served[0] + min(threshold, sizes[coming]), coming))
            coming += 1
            continue
        if queue is None:
            return took
        now += left
        served[queue], flow = heappop(waiting[queue])
        if queue == 0 and sizes[flow] > threshold:
            heappush(waiting[1], (served[1] + sizes[flow] - threshold, flow))
        else:
            took[flow] = now - arrivals[flow]


@pytest.mark.parametrize(
    ("threshold", "sizes_bytes", "shares"),
    [(10_000, *PAPER_MIX), (316_228, *PAPER_MIX), (100_000, [1_000_000], [1.0])],
)
def test_cost_of__agrees_with_an_event_simulation(
    threshold: int, sizes_bytes: list[int], shares: list[float]
) -> None:
    """Mean slowdown of 12,000 flows under multi-level processor sharing at load 0.7, within a tenth."""
    rng = np.random.default_rng(3)
    drawn = rng.choice(np.asarray(sizes_bytes, float), 12_000, p=shares)
    mean = float(np.dot(sizes_bytes, shares))
    arrivals = np.cumsum(rng.exponential(mean / 0.7, len(drawn)))
    took = fluid_times(drawn, arrivals, threshold)
    measured = np.mean(took[1_000:] / (drawn[1_000:] + online.FLOOR_BYTES))
    model = model_of(sizes_bytes, shares, 0.7, 2)
    assert mean_slowdown(model, np.asarray([[edge(threshold)]]))[0] == pytest.approx(measured, rel=0.1)


def test_worthwhile_thresholds__a_port_without_flows_keeps_its_own() -> None:
    nothing = np.zeros((1, BUCKETS))
    idle = online.delay_model(FlowSizes(nothing, EDGES[None]), nothing, np.zeros((1, 3)))
    assert online.worthwhile_thresholds(idle, np.asarray([[8, 12]])).tolist() == [[8, 12]]


def test_worthwhile_thresholds__a_small_gain_changes_nothing() -> None:
    model = model_of(*PAPER_MIX, 0.3, 2)
    best, cost = online.delay_terms(model, 2).best()
    near = best + 1
    assert mean_slowdown(model, near)[0] * (1 - online.MIN_GAIN) < cost[0] < mean_slowdown(model, near)[0]
    assert online.worthwhile_thresholds(model, near).tolist() == near.tolist()
