# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.units import PS_PER_S
from sluice.runs.live.network import MAX_LAG_S, WINDOW_S, Pace


def run(pace: Pace, began_s: float, seconds: float, most_speed: float, step_s: float = 0.01) -> int:
    """Move a network on that simulates at most `most_speed` seconds a second. Return its simulated time."""
    reached_ps = 0
    for step in range(1, round(seconds / step_s) + 1):
        now_s = began_s + step * step_s
        reached_ps = min(pace.due_ps(now_s), reached_ps + round(most_speed * step_s * PS_PER_S))
        pace.reached(now_s, reached_ps)
    return reached_ps


def test_due_ps__follows_the_wall_clock_from_its_start_on() -> None:
    pace = Pace(1000.0)
    assert pace.due_ps(1000.0) == 0
    assert pace.due_ps(1002.5) == 2.5 * PS_PER_S
    assert pace.due_ps(999.0) == 0


def test_dilation__a_fast_machine_is_on_time() -> None:
    pace = Pace(50.0)
    assert run(pace, 50.0, 20.0, most_speed=3.0) == pytest.approx(20 * PS_PER_S)
    assert pace.dilation == pytest.approx(1.0)


@pytest.mark.parametrize("factor", [1.5, 4.0, 250.0])
def test_dilation__a_slow_machine_dilates_time_by_what_it_lacks(factor: float) -> None:
    pace = Pace(0.0)
    simulated_ps = run(pace, 0.0, 4 * WINDOW_S, most_speed=1 / factor)
    assert pace.dilation == pytest.approx(factor, rel=0.01)
    assert simulated_ps == pytest.approx(4 * WINDOW_S / factor * PS_PER_S, rel=0.01)


def test_reached__a_lag_beyond_the_limit_is_given_up() -> None:
    """The network does not hurry after a long pause: it is due at most MAX_LAG_S further."""
    pace = Pace(0.0)
    pace.reached(10.0, PS_PER_S)
    assert pace.due_ps(10.0) == pytest.approx((1 + MAX_LAG_S) * PS_PER_S)


def test_reached__a_short_lag_is_caught_up() -> None:
    pace = Pace(0.0)
    pace.reached(1.0, round((1 - MAX_LAG_S / 2) * PS_PER_S))
    assert pace.due_ps(2.0) == 2 * PS_PER_S


def test_dilation__forgets_what_is_older_than_its_window() -> None:
    pace = Pace(0.0)
    run(pace, 0.0, 10.0, most_speed=0.5)
    assert pace.dilation == pytest.approx(2.0, rel=0.01)
    simulated_s = 5.0
    for step in range(1, 200):
        now_s = 10.0 + 0.05 * step
        simulated_s = pace.due_ps(now_s) / PS_PER_S
        pace.reached(now_s, round(simulated_s * PS_PER_S))
    assert pace.dilation == pytest.approx(1.0, rel=0.01)
