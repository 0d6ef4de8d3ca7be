# SPDX-License-Identifier: Apache-2.0
"""laws/datcp.h against the paper's two algorithms and equation (5) in rational numbers (datcp_paper.py)."""

from dataclasses import replace
from fractions import Fraction
from math import floor
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dataplane import datcp_paper as paper
from tests.unit.dataplane.datcp_paper import ONE, THETA, TOP, q16, state
from tests.unit.dataplane.law_driver import u32, u64

# g


@given(paper.rates)
def test_step__is_the_distance_in_units_of_the_throughput_at_most_g(
    laws: ModuleType, pair: tuple[int, int]
) -> None:
    average, desired = pair
    real = ONE * paper.granularity(Fraction(desired), Fraction(average), q16(laws.lib.SL_DATCP_STEP_MAX_Q16))
    got = laws.lib.sl_datcp_step_q16(desired, average)
    if abs(desired - average) < paper.PRODUCT_FITS:
        assert got == floor(real)
    else:
        assert abs(got - real) <= 1


# P and b


@given(u32, u32, u32)
def test_precedence__any_input(
    laws: ModuleType, urgency_q16: int, importance_milli: int, phi_milli: int
) -> None:
    goal = laws.ffi.new("struct sl_datcp_goal *", (1, 1, importance_milli, phi_milli))
    phi = Fraction(min(phi_milli, 1000), 1000)
    real = phi * Fraction(importance_milli, 1000) + (1 - phi) * q16(urgency_q16)
    got = laws.lib.sl_datcp_precedence_q16(urgency_q16, goal)
    assert 1 <= got <= TOP
    assert abs(q16(got) - min(real, paper.P_MAX)) < q16(2)


@given(st.one_of(u32, st.integers(0, TOP)))
def test_decrease__solves_equation_5(laws: ModuleType, precedence_q16: int) -> None:
    want = floor(ONE * paper.window_decrease(q16(precedence_q16)))
    assert laws.lib.sl_datcp_decrease_q16(precedence_q16) == want


@given(st.integers(ONE // 2, TOP))
def test_decrease__gives_throughput_in_proportion_to_precedence(
    laws: ModuleType, precedence_q16: int
) -> None:
    """Equations (1) to (4): W = 1 / b packets at the peak, and (1 + 1 - b) / 2 of it on average.

    The law rounds b down by less than a unit e, so that 2 e / (b (2 - b - e)) bounds the relative error.
    """
    b = q16(laws.lib.sl_datcp_decrease_q16(precedence_q16))
    standard = q16(laws.lib.sl_datcp_decrease_q16(ONE))
    share = ((2 - b) / b) / ((2 - standard) / standard)
    assert 0 <= share / q16(precedence_q16) - 1 < 2 * q16(1) / (b * (2 - b - q16(1)))


@given(st.integers(1, TOP), st.integers(0, 2**20))
def test_decrease__the_cut_is_the_papers(laws: ModuleType, precedence_q16: int, cwnd: int) -> None:
    """cwnd (1 - b), to half a packet and b's last bit on so many packets: as a penalty of 2 b on DCTCP's scale."""
    real = max(Fraction(2), cwnd * (1 - paper.window_decrease(q16(precedence_q16))))
    got = laws.lib.sl_dctcp_cwnd(cwnd, 2 * laws.lib.sl_datcp_decrease_q16(precedence_q16) * 2**4)
    assert abs(got - real) <= Fraction(1, 2) + cwnd * q16(1)
    if precedence_q16 == ONE:
        assert got == max(2, cwnd // 2)


# Both together


windows = st.builds(
    paper.Window,
    v_rtt=st.one_of(st.integers(0, 10**6), st.integers(0, 2**31)),
    t_rtt_us=st.one_of(st.integers(1, 10_000), st.integers(1, 2**32)),
    v_remain=st.one_of(st.integers(0, 10**9), st.integers(0, 2**44)),
    t_remain_us=st.one_of(st.just(0), st.integers(1, 10**8), st.integers(1, 2**44)),
    slow_start=st.sampled_from([False, False, False, True]),
)
Course = list[tuple[paper.Window, int]]
"""Windows, and how often each comes in a row."""
stretches = st.lists(st.tuples(windows, st.one_of(st.just(1), st.integers(1, 40))), max_size=12)
"""Windows repeat, so that theta can grow."""


def follow(laws: ModuleType, goal: paper.Goal, course: Course, draw: int) -> Any:
    """Compare the law with the paper's algorithm, each value rounded down, after every window."""
    s, c, flow = state(laws), paper.c_goal(laws, goal), paper.Flow(goal, paper.FIXED)
    for window, times in course:
        for _ in range(times):
            quench = flow.window(window)
            assert laws.lib.sl_datcp_window_ended(s, c, paper.c_window(laws, window, draw)) == (
                Fraction(draw, 2**32) >= 1 - quench
            )
            assert (s.average_bytes_per_s, s.desired_bytes_per_s) == (flow.r_avg, flow.r_desired)
            assert (q16(s.urgency_q16), q16(s.precedence_q16)) == (flow.u, flow.p)
            assert (s.fruitless, s.raised) == (flow.theta, flow.increased)
    return s


@given(paper.goals, stretches, st.one_of(st.just(2**32 - 1), u32))
def test_window_ended__follows_both_algorithms_with_each_value_rounded_down(
    laws: ModuleType, goal: paper.Goal, course: Course, draw: int
) -> None:
    follow(laws, goal, course, draw)


def test_window_ended__a_flow_without_progress_is_quenched_after_theta_windows(laws: ModuleType) -> None:
    """As in figure 11: 4 flows share a link that fits 3. The throughput stays and the deadline comes nearer."""
    s, goal, flow = state(laws), paper.Goal(), paper.Flow(paper.Goal(), paper.FIXED)
    outcomes = []
    for k in range(70):
        w = paper.Window(31_250, 1000, 200_000_000 - 31_250 * k, 6_000_000 - 1000 * k)
        outcomes.append(
            laws.lib.sl_datcp_window_ended(s, paper.c_goal(laws, goal), paper.c_window(laws, w, 2**32 - 1))
        )
        flow.window(w)
        assert s.fruitless == flow.theta
    # The first window has no earlier throughput, and the second is the first after a raise.
    assert [k for k, quenched in enumerate(outcomes) if quenched] == list(range(THETA, 70, THETA))


plain_windows = st.builds(
    paper.Window,
    v_rtt=st.integers(3000, 10**7),
    t_rtt_us=st.integers(50, 5000),
    v_remain=st.integers(0, 10**9),
    t_remain_us=st.one_of(st.just(0), st.integers(1000, 10**7)),
    slow_start=st.sampled_from([False, False, True]),
)


@given(paper.goals, st.lists(plain_windows, min_size=1, max_size=60))
def test_window_ended__stays_near_the_paper_in_real_numbers(
    laws: ModuleType, goal: paper.Goal, course: list[paper.Window]
) -> None:
    """Rounding errors add up window by window, and so does the bound.

    The law's R_avg is less than 1.9 / 0.9 B/s too low, because each window keeps a tenth of the old error and rounds
    twice. Its R_desired is less than 1 B/s too low. So (R_desired - R_avg) / R_avg, cut off at G, changes by less than
    (1 + 1.25 * 2.2) / R_avg. The law rounds U down by one unit.
    """
    s, c, flow = state(laws), paper.c_goal(laws, replace(goal, may_quench=False)), paper.Flow(goal)
    allowed = Fraction(0)
    for window in course:
        laws.lib.sl_datcp_window_ended(s, c, paper.c_window(laws, window))
        flow.window(window)
        assert flow.r_avg is not None
        assert 0 <= flow.r_avg - s.average_bytes_per_s < Fraction("2.2")
        allowed += q16(1) * Fraction("1.2") + Fraction("3.8") / (flow.r_avg - 3)
        assert abs(q16(s.urgency_q16) - flow.u) <= allowed
        assert abs(q16(s.precedence_q16) - min(flow.p, paper.P_MAX)) <= allowed + q16(2)


@given(st.tuples(u64, u64, u64, u64, u32, u32), st.tuples(u32, u32, u32, u32), st.integers(1, 40))
def test_window_ended__any_input_keeps_all_values_within_bounds(
    laws: ModuleType, window: tuple[int, ...], goal: tuple[int, ...], times: int
) -> None:
    s = state(laws)
    for _ in range(times):
        laws.lib.sl_datcp_window_ended(
            s, laws.ffi.new("struct sl_datcp_goal *", goal), laws.ffi.new("struct sl_datcp_window *", window)
        )
        assert ONE // 2 <= s.urgency_q16 <= TOP
        assert 1 <= s.precedence_q16 <= TOP
        assert s.fruitless < THETA
        assert s.raised in (0, 1)


def test_window_ended__past_the_deadline_urgency_rises_while_bytes_remain(laws: ModuleType) -> None:
    s, c = state(laws), paper.c_goal(laws, paper.Goal())
    laws.lib.sl_datcp_window_ended(s, c, paper.c_window(laws, paper.Window(10**6, 1000, 1, 0)))
    assert s.desired_bytes_per_s == laws.lib.SL_RATE_MAX
    assert s.urgency_q16 == ONE + laws.lib.SL_DATCP_STEP_MAX_Q16
    laws.lib.sl_datcp_window_ended(s, c, paper.c_window(laws, paper.Window(10**6, 1000, 0, 0)))
    assert s.desired_bytes_per_s == 0, "nothing is left to send"
    assert s.urgency_q16 == ONE


# laws/datcp.h: when a flow is quenched, when it resumes, and the time that it counts as left.


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


# The time left


@given(st.one_of(u64, st.integers(0, 10**7)), u32)
def test_left__is_shortened_by_8_round_trips_or_a_quarter(
    laws: ModuleType, left_us: int, rtt_us: int
) -> None:
    assert laws.lib.sl_datcp_left_us(left_us, rtt_us) == left_us - min(8 * rtt_us, left_us // 4)
