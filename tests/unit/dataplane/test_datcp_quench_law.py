# SPDX-License-Identifier: Apache-2.0
"""laws/datcp.h: when a flow is quenched, when it resumes, and the time that it counts as left."""

from __future__ import annotations

import random
from fractions import Fraction
from math import sqrt
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dataplane import datcp_paper as paper
from tests.unit.dataplane.datcp_inputs import ONE, THETA, TOP, q16, state
from tests.unit.dataplane.wide import u32, u64


def test_quench__theta_step_by_step(laws: ModuleType) -> None:
    s = state(laws, precedence_q16=ONE, raised=1)
    for theta in range(1, THETA):
        assert not laws.lib.sl_datcp_quench(s, False, 2**32 - 1)
        assert s.fruitless == theta
    assert not laws.lib.sl_datcp_quench(s, True, 2**32 - 1)
    assert s.fruitless == THETA - 1, "a window with growing throughput neither raises nor lowers theta"
    assert laws.lib.sl_datcp_quench(s, False, 2**32 - 1), "theta reaches Theta"
    assert s.fruitless == 0


def test_quench__theta_restarts_if_urgency_was_not_raised(laws: ModuleType) -> None:
    s = state(laws, precedence_q16=ONE, raised=1, fruitless=THETA - 1)
    s.raised = 0
    assert not laws.lib.sl_datcp_quench(s, False, 2**32 - 1)
    assert s.fruitless == 0
    s.raised = 1
    assert not laws.lib.sl_datcp_quench(s, False, 2**32 - 1)
    assert s.fruitless == 1


def test_quench__theta_restarts_even_if_the_draw_spares_the_flow(laws: ModuleType) -> None:
    s = state(laws, precedence_q16=ONE, raised=1, fruitless=THETA - 1)
    assert not laws.lib.sl_datcp_quench(s, False, 0)
    assert s.fruitless == 0


@given(st.integers(1, TOP))
def test_quench__of_all_2_32_draws_the_share_is_one_less_p_over_its_maximum(
    laws: ModuleType, precedence_q16: int
) -> None:
    """The highest draws quench, so the least of them gives their number."""
    spared = Fraction(precedence_q16, TOP) * 2**32
    assert spared.denominator == 1

    def quenched(draw: int) -> bool:
        s = state(laws, precedence_q16=precedence_q16, raised=1, fruitless=THETA - 1)
        return bool(laws.lib.sl_datcp_quench(s, 0, draw))

    assert not quenched(int(spared) - 1)
    if spared < 2**32:
        assert quenched(int(spared))
        assert quenched(2**32 - 1)


@pytest.mark.parametrize("precedence_q16", [1, ONE // 2, ONE, 2 * ONE, 6 * ONE, TOP - 1, TOP])
def test_quench__has_the_frequency_of_algorithm_2(laws: ModuleType, precedence_q16: int) -> None:
    draws, rng = 20_000, random.Random(20120528)
    real = 1 - float(q16(precedence_q16) / paper.P_MAX)
    count = 0
    for _ in range(draws):
        s = state(laws, precedence_q16=precedence_q16, raised=1, fruitless=THETA - 1)
        count += laws.lib.sl_datcp_quench(s, False, rng.getrandbits(32))
    assert abs(count / draws - real) <= 4 * sqrt(real * (1 - real) / draws)


# Suspension


def test_suspended__rates_and_theta_restart_and_urgency_stays(laws: ModuleType) -> None:
    s = state(
        laws,
        average_bytes_per_s=10**6,
        desired_bytes_per_s=10**7,
        urgency_q16=3 * ONE,
        precedence_q16=2 * ONE,
        fruitless=7,
        raised=1,
        calm=3,
    )
    laws.lib.sl_datcp_suspended(s, 900)
    assert (s.average_bytes_per_s, s.fruitless, s.raised, s.calm) == (0, 0, 0, 0)
    assert (s.urgency_q16, s.precedence_q16, s.rtt_at_quench_us) == (3 * ONE, 2 * ONE, 900)


CALM = 16


def calm_bound_us(at_quench_us: int, least_us: int) -> int:
    """The longest round trip of a lightly loaded network."""
    return least_us + max(at_quench_us - least_us, least_us) // 4


@given(u32, u32, st.lists(st.tuples(st.sampled_from([0] * 20 + [1, 2**31]), st.integers(-9, 1)), max_size=60))
def test_may_resume__after_enough_windows_in_a_row_without_mark_near_the_least_round_trip(
    laws: ModuleType, at_quench_us: int, least_us: int, seen: list[tuple[int, int]]
) -> None:
    s = state(laws)
    laws.lib.sl_datcp_suspended(s, at_quench_us)
    in_a_row = 0
    for marked, offset_us in seen:
        bound_us = calm_bound_us(at_quench_us, least_us)
        rtt_us = min(2**32 - 1, max(0, bound_us + offset_us))
        in_a_row = in_a_row + 1 if rtt_us <= bound_us and not marked else 0
        assert laws.lib.sl_datcp_may_resume(s, marked, rtt_us, least_us) == (in_a_row >= CALM)
        assert s.calm == in_a_row


def test_may_resume__by_hand(laws: ModuleType) -> None:
    s = state(laws)
    laws.lib.sl_datcp_suspended(s, 1100)
    calm = [laws.lib.sl_datcp_may_resume(s, 0, 300, 100) for _ in range(CALM)]
    assert calm == [0] * (CALM - 1) + [1]
    assert not laws.lib.sl_datcp_may_resume(s, 0, 800, 100), "the queue is long again"
    assert [laws.lib.sl_datcp_may_resume(s, 0, 350, 100) for _ in range(CALM)] == calm
    assert not laws.lib.sl_datcp_may_resume(s, 0, 351, 100)


def test_may_resume__quenched_at_the_least_round_trip(laws: ModuleType) -> None:
    """Round trips vary, and such a flow must not wait for one as short as the least."""
    s = state(laws)
    laws.lib.sl_datcp_suspended(s, 100)
    assert [laws.lib.sl_datcp_may_resume(s, 0, 125, 100) for _ in range(CALM)][-1]


# The time left


@given(st.one_of(u64, st.integers(0, 10**7)), u32)
def test_left__is_shortened_by_8_round_trips_or_a_quarter(
    laws: ModuleType, left_us: int, rtt_us: int
) -> None:
    assert laws.lib.sl_datcp_left_us(left_us, rtt_us) == left_us - min(8 * rtt_us, left_us // 4)


@pytest.mark.parametrize(("rtt_us", "left_us"), [(1, 992), (28, 776), (31, 752), (32, 750), (1000, 750)])
def test_left__of_a_millisecond(laws: ModuleType, rtt_us: int, left_us: int) -> None:
    assert laws.lib.sl_datcp_left_us(1000, rtt_us) == left_us
