# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from experiments.kit.paired import difference, signed


def test_difference__is_of_the_means_not_a_mean_of_ratios():
    found = difference([2.0, 10.0], [1.0, 10.0])
    assert found.mean == pytest.approx(12 / 11 - 1)
    assert found.seeds == 2


def test_difference__an_exact_factor_has_no_interval():
    theirs = [1.0, 5.0, 3.0]
    found = difference([0.9 * value for value in theirs], theirs)
    assert (found.low, found.mean, found.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert found.lower
    assert not found.higher


def test_difference__covers_the_truth_about_as_often_as_it_says():
    """1000 experiments of 20 seeds, ours 10 % above: the interval holds +10 % in some 95 % of them."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        theirs = rng.gamma(4.0, size=20)
        found = difference(1.1 * theirs * rng.normal(1, 0.1, 20), theirs)
        held += found.low <= 0.1 <= found.high
    assert 910 <= held <= 980


def test_difference__what_is_missing_is_left_out_in_pairs():
    assert difference([1.0, np.nan, 3.0], [1.0, 2.0, 3.0]).seeds == 2


def test_difference__one_seed_proves_nothing():
    found = difference([1.0], [2.0])
    assert not found.lower
    assert not found.higher


def test_signed():
    assert signed("-2.6%") == "−2.6 %"
