# SPDX-License-Identifier: Apache-2.0
"""The fluid link of the scheme's bounds: cases that a reader can work out by hand."""

from __future__ import annotations

from math import inf

import numpy as np
import numpy.typing as npt
import pytest

from experiments.papers.sluice import fluid


def times(sizes: npt.ArrayLike, arrivals: npt.ArrayLike, parts: fluid.Parts) -> list[float]:
    return list(fluid.times(np.asarray(sizes, float), np.asarray(arrivals, float), parts))


def test_one_queue_is_shared_equally() -> None:
    assert times([10, 30], [0, 0], [(inf, 0)]) == [20, 40]


def test_a_higher_queue_is_served_first() -> None:
    """The first flow has sent 10 when it drops; the second, of 8, passes it."""
    assert times([20, 8], [0, 12], [(10, 0), (inf, 1)]) == [28, 8]


def test_a_flow_that_rises_passes_those_before_it() -> None:
    """Both begin together and share the last queue; the first one to reach 12 ends before the other goes on."""
    together = times([20, 20], [0, 1], [(10, 0), (inf, 1)])
    rising = times([20, 20], [0, 1], [(10, 0), (12, 1), (inf, 0)])
    assert rising[0] < together[0]
    assert sum(rising) < sum(together)


def test_the_link_always_works() -> None:
    """The last flow ends when all bytes are carried, whatever the order."""
    rng = np.random.default_rng(1)
    sizes, arrivals = rng.exponential(5, 200), np.cumsum(rng.exponential(1, 200))
    for parts in ([(inf, 0)], [(3, 0), (inf, 1)], [(3, 0), (6, 2), (inf, 1)]):
        ends = arrivals + fluid.times(sizes, arrivals, parts)
        assert ends.max() == pytest.approx(_work_ends(sizes, arrivals))


def _work_ends(sizes: fluid.Floats, arrivals: fluid.Floats) -> float:
    now = 0.0
    for size, arrival in zip(sizes, arrivals, strict=True):
        now = max(now, arrival) + size
    return now
