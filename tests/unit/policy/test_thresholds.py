# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy import tags
from policy.thresholds import SlidingCounts, percentile_thresholds

MS = 1_000_000


def histogram(sizes):
    counts = np.zeros(tags.ATTAINED_BUCKETS, np.int64)
    for size in sizes:
        counts[tags.attained_tag(size) - tags.ATTAINED_FIRST] += 1
    return counts


@given(
    st.lists(st.sampled_from(tags.EDGES_BYTES), min_size=1, max_size=200),
    st.lists(st.floats(0.5, 100), min_size=1, max_size=7).map(sorted),
)
def test_percentile_thresholds__equal_the_nearest_rank_of_the_sorted_list(sizes, percentiles):
    """The paper's sorted list of completed sizes, for sizes that are edges: the histogram loses nothing."""
    ordered = sorted(sizes)
    expected = tuple(ordered[max(1, int(np.ceil(p / 100 * len(ordered) - 1e-9))) - 1] for p in percentiles)
    assert percentile_thresholds(histogram(sizes), percentiles) == expected


def test_percentile_thresholds__paper_mix_gives_the_short_flows_edge():
    assert percentile_thresholds(histogram([10_000] * 80 + [1_000_000] * 20), [10]) == (10_000,)


@pytest.mark.parametrize("percentile", [81, 100])
def test_percentile_thresholds__above_the_short_share_gives_the_long_flows_edge(percentile):
    assert percentile_thresholds(histogram([10_000] * 80 + [1_000_000] * 20), [percentile]) == (1_000_000,)


def test_sliding_counts__the_first_counters_are_a_baseline_and_count_nothing():
    window = SlidingCounts(window_ns=500 * MS)
    assert window.grown is None
    window.observe(0, histogram([10_000] * 7))
    assert window.grown is not None
    assert window.grown.sum() == 0
    assert window.covered_ns == 0


def test_sliding_counts__slides():
    window = SlidingCounts(window_ns=500 * MS)
    counters = histogram([])
    window.observe(0, counters)
    counters = counters + histogram([10_000] * 3)
    window.observe(100 * MS, counters)
    counters = counters + histogram([20_000])
    window.observe(400 * MS, counters)
    assert window.grown.sum() == 4
    window.observe(600 * MS, counters)
    assert window.grown.sum() == 1
    window.observe(901 * MS, counters)
    assert window.grown.sum() == 0


def test_sliding_counts__a_reset_counter_counts_from_zero():
    window = SlidingCounts(window_ns=500 * MS)
    window.observe(0, histogram([10_000] * 50))
    window.observe(MS, histogram([10_000] * 2))
    assert window.grown.sum() == 2


def test_sliding_counts__takes_arrays_of_any_shape():
    window = SlidingCounts(window_ns=500 * MS)
    window.observe(0, np.zeros((3, 62), np.int64))
    window.observe(MS, np.ones((3, 62), np.int64))
    assert (window.grown == 1).all()


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 20)), max_size=60))
def test_sliding_counts__equals_the_sum_over_the_window_and_knows_the_time_it_covers(steps):
    window = SlidingCounts(window_ns=500 * MS)
    counters, now, seen = histogram([]), 0, []
    times = [0]
    window.observe(0, counters)
    for gap_ms, flows in steps:
        now += gap_ms * MS
        counters = counters + histogram([10_000] * flows)
        seen.append((now, flows))
        times.append(now)
        window.observe(now, counters)
        assert window.grown.sum() == sum(n for at, n in seen if at > now - 500 * MS)
        begin = max((at for at in times if at <= now - 500 * MS), default=0)
        assert window.covered_ns == now - begin
