# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.report.figures import (
    MIN_FOR_MEAN,
    MIN_FOR_P99,
    Estimate,
    cdf,
    estimate,
    of_class,
    pooled,
    ratio,
    slowdown_by_size,
)
from experiments.report.numbers import Scale, plain_scale, size_text, time_scale
from experiments.report.runs import Flows, find_runs
from tests.unit.experiments.bundles import bundle, document, flow


def runs_with(tmp_path, fct_us_by_seed):
    for seed, fct_us in fct_us_by_seed.items():
        bundle(tmp_path / str(seed), document(seed=seed), [flow(1, 1000, fct_us)])
    return find_runs([tmp_path])


def mean_fct(runs):
    return of_class(runs, "fct_us", "all", "mean")


def test_estimate__mean_and_deviation_of_what_is_known():
    assert estimate([1.0, None, 3.0]) == Estimate(2.0, pytest.approx(2**0.5), 2)
    assert estimate([5.0]) == Estimate(5.0, None, 1)
    assert estimate([None]) is None


def test_ratio__seed_by_seed(tmp_path):
    above = runs_with(tmp_path / "a", {1: 200.0, 2: 900.0})
    below = runs_with(tmp_path / "b", {1: 100.0, 2: 300.0})
    assert ratio(above, below, mean_fct) == Estimate(2.5, pytest.approx(0.5**0.5), 2)


def test_ratio__mean_by_mean_where_the_seeds_differ(tmp_path):
    above = runs_with(tmp_path / "a", {1: 200.0, 2: 900.0})
    below = runs_with(tmp_path / "b", {1: 100.0})
    assert ratio(above, below, mean_fct) == Estimate(5.5, None, 2)


def test_pooled__finished_flows_of_all_runs(tmp_path):
    runs = runs_with(tmp_path, {1: 100.0, 2: None, 3: 50.0})
    assert sorted(pooled(runs).fct_us) == [50.0, 100.0]


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=2000, unique=True))
def test_cdf__every_point_is_on_the_distribution(values):
    x, share = cdf(np.array(values))
    assert share == pytest.approx([np.mean(np.array(values) <= value) for value in x])
    assert share[-1] == 1
    assert x[-1] == max(values)
    assert (np.diff(share) > 0).all()
    assert (np.diff(x) > 0).all()


def of_sizes(sizes, slowdown) -> Flows:
    sizes, slowdown = np.array(sizes), np.array(slowdown, float)
    return Flows(sizes, np.full(len(sizes), "small"), slowdown, slowdown)


def test_slowdown_by_size__each_bin_has_its_own_figures():
    sizes = [1500] * 200 + [150_000] * 50 + [9_000_000] * 3
    slowdown = [*np.linspace(1, 2, 200), *[5.0] * 50, 7, 7, 7]
    bins = slowdown_by_size(of_sizes(sizes, slowdown))
    assert bins.size_bytes == pytest.approx([1500, 150_000, 9_000_000])
    assert list(bins.flows) == [200, 50, 3]
    assert bins.mean[:2] == pytest.approx([1.5, 5])
    assert bins.p99[0] == pytest.approx(np.percentile(slowdown[:200], 99))


def test_slowdown_by_size__few_flows_say_nothing():
    bins = slowdown_by_size(of_sizes([1500] * (MIN_FOR_MEAN - 1), [1.0] * (MIN_FOR_MEAN - 1)))
    assert np.isnan(bins.mean).all()
    bins = slowdown_by_size(of_sizes([1500] * (MIN_FOR_P99 - 1), [1.0] * (MIN_FOR_P99 - 1)))
    assert np.isfinite(bins.mean).all()
    assert np.isnan(bins.p99).all()
    assert len(slowdown_by_size(of_sizes([], [])).size_bytes) == 0


@pytest.mark.parametrize(
    ("values_us", "shown"),
    [
        ([123.4, 5000], "123"),
        ([1234.0], "1.23"),
        ([45_600.0], "45.6"),
        ([3.2e6], "3.20"),
        ([0.0123], "0.012"),
    ],
)
def test_time_scale__three_digits_of_the_smallest(values_us, shown):
    assert time_scale(values_us).show(Estimate(values_us[0], None, 1)) == shown


def test_plain_scale__a_decimal_at_least():
    assert plain_scale([150.0]).show(Estimate(150.0, None, 1)) == "150.0"
    assert plain_scale([1.2]).show(Estimate(1.234, 0.5, 3)) == "1.23 ± 0.50"


def test_scale__groups_thousands_and_says_nothing_of_nothing():
    assert Scale("µs", 1, 0).show(Estimate(1234567, None, 1)) == "1\u202f234\u202f567"
    assert Scale("µs", 1, 0).show(None) == "–"


def test_size_text():
    assert [size_text(size) for size in (300, 100_000, 2.5e6, 1e9)] == ["300 B", "100 KB", "2.5 MB", "1 GB"]
