# SPDX-License-Identifier: Apache-2.0
"""laws/ucp.h against the slides of Aemon (Wang, Xu, Liu, APNet 2017, slides 24 and 25) in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dataplane.wide import alphas, u32, u64

ONE_Q20 = 2**20
ONE_Q16 = 2**16
URGENCY_CAP = 16
EXPONENT_CAP = 4
EXACT_NS = 2**47
"""s is exact for smaller elapsed times, otherwise within one unit."""

times = st.tuples(u64, u64, u64)
urgencies = st.one_of(u32, st.integers(0, 17 * ONE_Q16))


def urgency(start_ns: int, deadline_ns: int, now_ns: int) -> Fraction:
    """Return s = T_e / (T_d - T_e), with T_e and T_d from the start. From the deadline on, s is at its cap."""
    if deadline_ns == 0:
        return Fraction(1)
    if now_ns >= deadline_ns:
        return Fraction(URGENCY_CAP)
    elapsed = max(0, now_ns - start_ns)
    return min(Fraction(URGENCY_CAP), Fraction(elapsed, deadline_ns - now_ns))


@given(times)
def test_urgency__is_elapsed_time_over_time_left(laws: ModuleType, when: tuple[int, int, int]) -> None:
    start_ns, _, now_ns = when
    real = ONE_Q16 * urgency(*when)
    got = laws.lib.sl_ucp_urgency_q16(*when)
    if now_ns - start_ns < EXACT_NS:
        assert got == floor(real)
    else:
        assert abs(got - real) <= 1
    assert 0 <= got <= laws.lib.SL_UCP_URGENCY_MAX_Q16 == URGENCY_CAP * ONE_Q16


@given(
    start_ns=st.integers(0, 2**50),
    elapsed_ns=st.one_of(st.integers(0, 2**52), st.integers(0, 10**9), st.integers(2**47 - 9, 2**47 + 9)),
    s=st.one_of(st.floats(0.01, 20.0), st.just(16.0), st.just(1.0)),
)
def test_urgency__in_and_around_the_range_that_matters(
    laws: ModuleType, start_ns: int, elapsed_ns: int, s: float
) -> None:
    now_ns = start_ns + elapsed_ns
    when = (start_ns, now_ns + max(1, int(elapsed_ns / s)), now_ns)
    error = laws.lib.sl_ucp_urgency_q16(*when) - ONE_Q16 * urgency(*when)
    assert -1 < error <= (0 if elapsed_ns < EXACT_NS else 1)


def test_urgency__of_a_flow_half_way_and_at_the_ends(laws: ModuleType) -> None:
    s = laws.lib.sl_ucp_urgency_q16
    assert s(1000, 2000, 1500) == ONE_Q16, "as much time left as elapsed"
    assert s(1000, 2000, 1000) == 0
    assert s(1000, 2000, 900) == 0, "a start in the future is no time elapsed"
    assert s(1000, 2000, 1250) == ONE_Q16 // 3
    assert s(1000, 2000, 2000) == s(1000, 2000, 10**18) == URGENCY_CAP * ONE_Q16
    assert s(1000, 0, 10**18) == s(0, 0, 0) == ONE_Q16, "no deadline: as DCTCP"
    assert s(0, 17_000, 16_000) == URGENCY_CAP * ONE_Q16
    assert s(0, 17_001, 16_000) == ONE_Q16 * 16_000 // 1001
    assert s(0, 2**64 - 1, 2**64 - 2) == URGENCY_CAP * ONE_Q16


@given(times, st.one_of(st.integers(0, 1000), u64))
def test_urgency__never_falls_as_time_passes(
    laws: ModuleType, when: tuple[int, int, int], later_ns: int
) -> None:
    start_ns, deadline_ns, now_ns = when
    later = min(2**64 - 1, now_ns + later_ns)
    at = laws.lib.sl_ucp_urgency_q16
    slack = 1 if later - start_ns >= EXACT_NS else 0
    assert at(start_ns, deadline_ns, later) >= at(start_ns, deadline_ns, now_ns) - slack


@given(alphas, urgencies)
def test_penalty__is_the_share_to_the_urgency(laws: ModuleType, alpha_q20: int, urgency_q16: int) -> None:
    real = ONE_Q20 * (alpha_q20 / ONE_Q20) ** min(EXPONENT_CAP, urgency_q16 / ONE_Q16)
    assert abs(laws.lib.sl_ucp_penalty_q20(alpha_q20, urgency_q16) - real) < 2


def test_penalty__counts_urgency_up_to_4(laws: ModuleType) -> None:
    penalty = laws.lib.sl_ucp_penalty_q20
    half = ONE_Q20 // 2
    assert penalty(half, 4 * ONE_Q16) == ONE_Q20 // 16
    assert penalty(half, 4 * ONE_Q16 - 1) > penalty(half, 4 * ONE_Q16)
    assert {penalty(half, s) for s in (4 * ONE_Q16, 4 * ONE_Q16 + 1, 16 * ONE_Q16, 2**32 - 1)} == {
        ONE_Q20 // 16
    }


@given(alphas, urgencies, urgencies)
def test_penalty__a_more_urgent_flow_is_never_cut_harder(
    laws: ModuleType, alpha_q20: int, one: int, other: int
) -> None:
    penalty = laws.lib.sl_ucp_penalty_q20
    assert penalty(alpha_q20, max(one, other)) <= penalty(alpha_q20, min(one, other))


@given(alphas, u32, times)
def test_penalty__without_a_deadline_the_cut_is_dctcps_own(
    laws: ModuleType, alpha_q20: int, cwnd: int, when: tuple[int, int, int]
) -> None:
    s = laws.lib.sl_ucp_urgency_q16(when[0], 0, when[2])
    penalty = laws.lib.sl_ucp_penalty_q20(alpha_q20, s)
    assert penalty == alpha_q20
    assert laws.lib.sl_dctcp_cwnd(cwnd, penalty) == laws.lib.sl_dctcp_cwnd(cwnd, alpha_q20)


@given(alphas, urgencies, st.integers(0, 2**20))
def test_cut__is_the_slides(laws: ModuleType, alpha_q20: int, urgency_q16: int, cwnd: int) -> None:
    """cwnd (1 - alpha^s / 2), to half a packet and the penalty's error on so many packets; at least 2."""
    share = (alpha_q20 / ONE_Q20) ** min(EXPONENT_CAP, urgency_q16 / ONE_Q16)
    real = max(2.0, cwnd * (1 - share / 2))
    got = laws.lib.sl_dctcp_cwnd(cwnd, laws.lib.sl_ucp_penalty_q20(alpha_q20, urgency_q16))
    assert abs(got - real) <= 0.5 + cwnd / ONE_Q20
