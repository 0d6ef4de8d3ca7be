# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from experiments.kit.paired import Changes, Difference, difference, signed


def test_difference__is_of_the_means_not_a_mean_of_ratios() -> None:
    found = difference([2.0, 10.0], [1.0, 10.0])
    assert found.mean == pytest.approx(12 / 11 - 1)
    assert found.seeds == 2


def test_difference__an_exact_factor_has_no_interval() -> None:
    theirs = [1.0, 5.0, 3.0]
    found = difference([0.9 * value for value in theirs], theirs)
    assert (found.low, found.mean, found.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert found.lower


def test_difference__covers_the_truth_about_as_often_as_it_says() -> None:
    """1000 experiments of 20 seeds, ours 10 % above: about 95 % of the intervals contain +10 %."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        theirs = rng.gamma(4.0, size=20)
        found = difference(list(1.1 * theirs * rng.normal(1, 0.1, 20)), list(theirs))
        held += found.low <= 0.1 <= found.high
    assert 910 <= held <= 980


def test_difference__what_is_missing_is_left_out_in_pairs() -> None:
    assert difference([1.0, np.nan, 3.0], [1.0, 2.0, 3.0]).seeds == 2


def test_difference__one_seed_proves_nothing() -> None:
    found = difference([1.0], [2.0])
    assert not found.lower


def test_signed() -> None:
    assert signed("-2.6%") == "−2.6 %"


def change(mean: float) -> Difference:
    return Difference(mean, mean - 0.01, mean + 0.01, 5, 0.0)


def test_changes__at_every_load_and_growing_with_it() -> None:
    changes = Changes({0.5: change(-0.2), 0.9: change(-0.5)})
    assert changes.lower
    assert changes.grows
    assert not changes.within(0.3)
    assert str(changes) == "−20.0 % at 50 % … −50.0 % at 90 %"
    assert not Changes({0.5: change(-0.005), 0.9: change(-0.5)}).lower
    assert not Changes({0.5: change(-0.5), 0.9: change(-0.5)}).grows


def test_changes__at_one_load() -> None:
    assert str(Changes({0.5: change(-0.2)})) == "−20.0 % at 50 %"
