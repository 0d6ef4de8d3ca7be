# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.thresholds import adaptation, port_traffic
from sluice.policy.thresholds.static import LEAST_FLOWS, MeasuredFlows, measured_traffic
from tests.kit.controller import counted
from tests.kit.known import known

MS = 1_000_000


def histogram(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    counts = np.zeros(tags.ATTAINED_BUCKETS, np.int64)
    for size in sizes:
        counts[tags.attained_tag(size) - tags.ATTAINED_FIRST] += 1
    return counts


def percentile_thresholds(completed: npt.NDArray[np.int64], percentiles: Sequence[float]) -> tuple[int, ...]:
    """Return the thresholds of one port, in bytes."""
    (edges,) = adaptation.percentile_edges(completed[None, :], percentiles)
    return tuple(tags.EDGES_BYTES[k] for k in edges)


@given(
    st.lists(st.sampled_from(tags.EDGES_BYTES), min_size=1, max_size=200),
    st.lists(st.floats(0.5, 100), min_size=1, max_size=7).map(sorted),
)
def test_percentile_thresholds__equal_the_nearest_rank_of_the_sorted_list(
    sizes: list[int], percentiles: list[float]
) -> None:
    """The paper's sorted list of completed sizes. For sizes that are edges, the histogram loses nothing."""
    ordered = sorted(sizes)
    expected = tuple(ordered[max(1, int(np.ceil(p / 100 * len(ordered) - 1e-9))) - 1] for p in percentiles)
    assert percentile_thresholds(histogram(sizes), percentiles) == expected


def test_percentile_edges__a_port_without_flows_has_the_last_edge() -> None:
    """Its index is an edge, so a port that no one asks about stops none of the others."""
    ports = np.stack([histogram([]), histogram([10_000])])
    assert adaptation.percentile_edges(ports, [10, 90]).tolist() == [[tags.ATTAINED_BUCKETS - 1] * 2, [8, 8]]


def test_sliding_counts__a_counter_of_64_bits_that_wraps_around_has_grown_by_what_it_passed() -> None:
    window = adaptation.SlidingCounts(window_ns=500 * MS)
    on_the_wire = [2**64 - 10, 2**64 - 4, 5]
    for i, value in enumerate(on_the_wire):
        window.observe(i * MS, np.asarray([value], np.uint64).astype(np.int64))
    assert known(window.grown).tolist() == [15]


def test_growth__no_counter_grows_by_281_tb_between_two_readings() -> None:
    """Such a counter was reset. It counts from zero, unless that is too much as well."""
    before = np.asarray([0, 0, 5, 5, 5])
    now = np.asarray([2**48 - 1, 2**48, 4, 0, -1])
    assert adaptation.growth(before, now).tolist() == [2**48 - 1, 0, 4, 0, 0]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=20))
def test_sliding_counts__whatever_the_switch_says_growth_is_never_negative_nor_beyond_belief(
    values: list[int],
) -> None:
    window = adaptation.SlidingCounts(window_ns=10**12)
    for i, value in enumerate(values):
        window.observe(i * MS, np.asarray([value], np.uint64).astype(np.int64))
    assert 0 <= known(window.grown)[0] < len(values) * 2**48


def test_sliding_counts__what_it_keeps_has_a_bound() -> None:
    """A window of an hour, with counters every 10 ms."""
    window = adaptation.SlidingCounts(window_ns=3_600_000 * MS)
    for i in range(2_500):
        window.observe(i * 10 * MS, np.full(3, i))
    assert len(window._slices) <= 5
    assert known(window.grown).tolist() == [2_499] * 3
    assert window.covered_ns == 2_499 * 10 * MS
    window.observe(2_499 * 10 * MS + window.window_ns, np.full(3, 2_499))
    assert known(window.grown).tolist() == [0] * 3, "combined counters leave the window whole"


@given(st.lists(st.tuples(st.integers(2, 300), st.integers(0, 20)), max_size=60))
def test_sliding_counts__equals_the_sum_over_the_window_and_knows_the_time_it_covers(
    steps: list[tuple[int, int]],
) -> None:
    window = adaptation.SlidingCounts(window_ns=500 * MS)
    counters, now, seen = histogram([]), 0, []
    times = [0]
    window.observe(0, counters)
    for gap_ms, flows in steps:
        now += gap_ms * MS
        counters = counters + histogram([10_000] * flows)
        seen.append((now, flows))
        times.append(now)
        window.observe(now, counters)
        assert known(window.grown).sum() == sum(n for at, n in seen if at > now - 500 * MS)
        begin = max((at for at in times if at <= now - 500 * MS), default=0)
        assert window.covered_ns == now - begin


RATE_BPS = 10**9


def traffic(counters: adaptation.PortCounters, seconds: float = 1.0) -> port_traffic.PortTraffic:
    return port_traffic.PortTraffic(
        counters.packets,
        counters.bytes,
        counters.completed.astype(float),
        np.asarray([seconds]),
        np.asarray([float(RATE_BPS)]),
    )


def heavy_tailed(n: int, seed: int = 1) -> npt.NDArray[Any]:
    """Return a bounded Pareto distribution, 1 KB to 50 MB."""
    uniform = np.random.default_rng(seed).random(n)
    return np.asarray(1_000 * (1 - uniform * (1 - (1 / 50_000) ** 1.1)) ** (-1 / 1.1), int)


def test_payload_up_to__is_the_sum_of_what_each_flow_sent_up_to_the_edge() -> None:
    sizes = heavy_tailed(3_000)
    measured = traffic(counted(sizes)).payload[0]
    expected = np.minimum(sizes[:, None], port_traffic.EDGES[None, :]).sum(axis=0)
    expected[-1] = sizes.sum()
    wide = port_traffic.EDGES >= 10_000  # below, buckets are narrower than packets
    assert measured[wide] == pytest.approx(expected[wide], rel=0.02)
    assert measured[~wide] == pytest.approx(expected[~wide], rel=0.15)


def test_payload_up_to__acks_of_the_other_direction_are_none() -> None:
    sizes = heavy_tailed(1_000)
    without = traffic(counted(sizes)).payload
    assert traffic(counted(sizes, acks=100_000)).payload == pytest.approx(without)


def test_flow_sizes__by_fins_they_are_the_histogram() -> None:
    sizes = heavy_tailed(2_000)
    counters = counted(sizes)
    assert (port_traffic.flow_sizes(traffic(counters)).ends[0] == counters.completed[0].sum(axis=0)).all()


def test_flow_sizes__without_fins_the_bytes_tell_how_many_are_longer() -> None:
    """Flows counted at an edge end around it, on both sides. A flow below a packet counts in part."""
    sizes = heavy_tailed(20_000)
    found = port_traffic.flow_sizes(traffic(counted(sizes, fins=False)))
    assert found.flows[0] == pytest.approx(np.minimum(sizes, 1448).sum() / 1448, rel=0.01)
    for edge in (10_000, 100_000, 1_000_000):
        around = found.ends[0][found.size_bytes[0] == edge].sum()
        longer = found.ends[0][found.size_bytes[0] > edge].sum() + around / 2
        assert longer == pytest.approx((sizes > edge).sum(), rel=0.15)


def test_flow_sizes__a_few_fins_among_many_flows_without_are_not_believed() -> None:
    """Persistent connections, of which one is closed."""
    mixed = counted([10_000] * 500, fins=False)
    mixed.completed[0, 0, tags.attained_tag(10_000) - tags.ATTAINED_FIRST] = 3
    assert port_traffic.flow_sizes(traffic(mixed)).flows[0] == pytest.approx(500, rel=0.05)


def test_load_up_to__the_whole_load_counts_headers_and_acks() -> None:
    counters = counted(heavy_tailed(500), acks=1_000)
    load = port_traffic.load_up_to(traffic(counters, seconds=2.0))[0]
    assert load[-1] == pytest.approx(counters.bytes.sum() * 8 / 2 / RATE_BPS)
    assert (np.diff(load) >= 0).all()


RATES = {"h1": 10**7, "h2": 10**7}


def flows(count: int = 1000, seconds: float = 100.0) -> MeasuredFlows:
    """Flows of two sizes, all to h1, spread evenly."""
    began = np.linspace(0, seconds, count)
    sizes = np.where(np.arange(count) % 5, 10_000.0, 400_000.0)
    return MeasuredFlows(sizes, ["h1"] * count, began, began)


def test_measured__sizes_and_load_of_the_receivers_link() -> None:
    traffic = known(measured_traffic(flows(), RATES))
    wire = 800 * (10_000 + 66 * 7) + 200 * (400_000 + 66 * 277)
    assert traffic.load == pytest.approx(wire * 8 / 10**7 / 100)
    share = np.mean(traffic.sizes.at(np.linspace(0, 0.9999, 10_000))[0] < 200_000)
    assert share == pytest.approx(0.8, abs=0.005)


def test_measured__too_little_says_nothing() -> None:
    assert measured_traffic(flows(LEAST_FLOWS - 1), RATES) is None
    assert measured_traffic(flows(seconds=1.0), RATES) is None
    assert measured_traffic(flows(), {}) is None
