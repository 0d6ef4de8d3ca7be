# SPDX-License-Identifier: Apache-2.0
"""sluice_bounds: known results of queueing theory, which its formulas must give."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.papers.sluice import bounds
from experiments.papers.sluice.bounds import Floats, Link
from sluice.policy.thresholds.static import optimal_thresholds
from sluice.runs.files import load_cdf

LOAD = 0.7
PROBABILITY = (np.arange(1000) + 0.5) / 1000
EXPONENTIAL: Floats = -1e5 * np.log1p(-PROBABILITY)
HEAVY: Floats = 1e4 * (1 - PROBABILITY) ** -0.8


def test_exponential_sizes__every_order_without_sizes_has_the_same_mean() -> None:
    """The bytes sent say nothing about those left (Conway, Maxwell, Miller, 1967): E[S] / (1 - load)."""
    link = Link(EXPONENTIAL, LOAD)
    expected = link.flow.mean() / (1 - LOAD)
    for times in (bounds.processor_sharing, bounds.least_attained, bounds.gittins):
        assert times(link).mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("flow", [EXPONENTIAL, HEAVY], ids=["exponential", "heavy"])
def test_shortest_remaining_is_best_and_gittins_best_without_sizes(flow: Floats) -> None:
    link = Link(flow, LOAD)
    best = bounds.gittins(link).mean()
    assert bounds.shortest_remaining(link).mean() < best
    for times in (bounds.processor_sharing, bounds.least_attained, bounds.levels((100_000, 1_000_000))):
        assert best <= 1.01 * times(link).mean()


def test_decreasing_hazard__gittins_is_least_attained_service() -> None:
    """A flow of a heavy tail is less likely to end the more it has sent (Aalto, Ayesta, 2009).

    The largest size of a sample ends its tail, so Gittins's mean is a little lower.
    """
    link = Link(HEAVY, LOAD)
    assert bounds.gittins(link).mean() == pytest.approx(bounds.least_attained(link).mean(), rel=0.06)


def test_levels__none_is_sharing_and_many_are_least_attained_service() -> None:
    link = Link(HEAVY, LOAD)
    assert bounds.levels(())(link) == pytest.approx(bounds.processor_sharing(link))
    many = bounds.levels(tuple(int(edge) for edge in np.geomspace(1e4, 1e7, 300)))(link)
    assert many.mean() == pytest.approx(bounds.least_attained(link).mean(), rel=0.02)


def test_table__has_a_row_for_each_order() -> None:
    found = {"one": bounds.figures(HEAVY, bounds.processor_sharing(Link(HEAVY, LOAD)))}
    assert bounds.table(found).count("\n") == 3


def test_best_for_mean__beats_the_levels_of_least_slowdown_in_the_mean() -> None:
    sizes = load_cdf("web-search")
    link = Link(bounds.sample(sizes), LOAD)
    mean = bounds.levels(bounds.best_for_mean(sizes, LOAD, 4))(link).mean()
    slowdown = bounds.levels(optimal_thresholds(sizes, LOAD, 4))(link).mean()
    assert mean < 0.999 * slowdown


def test_simulated__feedback_queues_as_the_formula_has_them() -> None:
    """The formula is exact at the first level, and approximate below."""
    link, ends = Link(HEAVY, LOAD), (50_000, 400_000)
    formula, events = bounds.levels(ends)(link), bounds.simulated(bounds.feedback(ends))(link)
    first = link.flow <= ends[0]
    assert events[first].mean() == pytest.approx(formula[first].mean(), rel=0.05)
    assert events.mean() == pytest.approx(formula.mean(), rel=0.1)


def test_simulated__sizes_of_a_narrow_range_gain_when_flows_finish() -> None:
    """Flows of 1 to 2 MB that share the last queue end together; those that have sent 1.2 MB should go first."""
    link = Link(np.linspace(1e6, 2e6, 200), LOAD)
    shared, finishing = (
        bounds.simulated(bounds.feedback((100_000,), after))(link) for after in (None, 1_200_000)
    )
    assert finishing.mean() < 0.95 * shared.mean()


def test_feedback__flows_leave_the_last_queue_for_the_one_before() -> None:
    assert bounds.feedback((10, 20), 30) == [(10.0, 0), (20.0, 1), (30.0, 3), (np.inf, 2)]
