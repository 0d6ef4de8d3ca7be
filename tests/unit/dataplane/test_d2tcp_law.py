# SPDX-License-Identifier: Apache-2.0
"""laws/d2tcp.h against D2TCP (Vamanan, Hasan, Vijaykumar, SIGCOMM 2012, section 3) in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.dataplane.wide import alphas, u32, u64

ONE_Q20 = 2**20
ONE_Q16 = 2**16
LARGEST = 2**44
"""The law counts larger numbers of bytes or microseconds as this."""

flows = st.tuples(u64, u64, u64, u32)
Flow = tuple[int, int, int, int]
"""Remaining bytes, time left (us), window (bytes), round trip (us)."""

imminences = st.integers(ONE_Q16 // 2, 2 * ONE_Q16)


def clamp(d: Fraction) -> Fraction:
    return max(Fraction(1, 2), min(Fraction(2), d))


def imminence_bounds(
    remaining_bytes: int, left_us: int, window_bytes: int, rtt_us: int
) -> tuple[Fraction, Fraction]:
    """Return bounds of d = T_c / D with T_c = B / (3/4 W / RTT).

    The law may take the rate up to 1 B/s and T_c up to 1 us too small.
    """
    remaining_bytes, left_us = min(remaining_bytes, LARGEST), min(left_us, LARGEST)
    rate = Fraction(3, 4) * min(window_bytes, LARGEST // 3) * Fraction(10**6, rtt_us)
    needed_us = remaining_bytes * 10**6 / rate
    most_us = remaining_bytes * 10**6 / (rate - 1) if rate > 1 else None
    least = clamp((needed_us - 1) / left_us)
    return least - Fraction(1, ONE_Q16), clamp(most_us / left_us) if most_us is not None else Fraction(2)


@given(flows)
def test_imminence__is_the_time_needed_over_the_time_left(laws: ModuleType, flow: Flow) -> None:
    assume(all(flow[1:]))
    least, most = imminence_bounds(*flow)
    assert least < Fraction(laws.lib.sl_d2tcp_imminence_q16(*flow), ONE_Q16) <= most


@given(
    rate_bytes_per_s=st.integers(10**4, 10**11),
    rtt_us=st.integers(20, 10**6),
    left_us=st.integers(1000, 10**9),
    d=st.floats(0.3, 3),
)
def test_imminence__of_usual_flows(
    laws: ModuleType, rate_bytes_per_s: int, rtt_us: int, left_us: int, d: float
) -> None:
    """Within 0.003 of the value in floating point."""
    window_bytes = max(1, rate_bytes_per_s * rtt_us // 10**6)
    real_rate = 0.75 * window_bytes / (rtt_us / 1e6)
    assume(real_rate > 2000)
    remaining_bytes = int(d * real_rate * left_us / 1e6)
    real = max(0.5, min(2.0, remaining_bytes / real_rate / (left_us / 1e6)))
    got = laws.lib.sl_d2tcp_imminence_q16(remaining_bytes, left_us, window_bytes, rtt_us)
    assert abs(got / ONE_Q16 - real) <= 0.003


def test_imminence__by_hand(laws: ModuleType) -> None:
    d = laws.lib.sl_d2tcp_imminence_q16
    # A window of 4000 bytes each millisecond sends 3 MB/s on average; 3 MB then take a second.
    assert d(3_000_000, 1_000_000, 4000, 1000) == ONE_Q16
    assert d(3_000_000, 800_000, 4000, 1000) == ONE_Q16 * 5 // 4
    assert d(3_000_000, 1_600_000, 4000, 1000) == ONE_Q16 * 5 // 8
    assert d(3_000_000, 2_000_000, 4000, 1000) == ONE_Q16 // 2
    assert d(3_000_000, 9_000_000, 4000, 1000) == ONE_Q16 // 2, "at least 1/2"
    assert d(3_000_000, 500_000, 4000, 1000) == 2 * ONE_Q16
    assert d(3_000_000, 500_001, 4000, 1000) == 2 * ONE_Q16 - 1
    assert d(3_000_000, 100_000, 4000, 1000) == 2 * ONE_Q16, "at most 2"
    assert d(9, 1, 4000, 1000) == 2 * ONE_Q16, "3 us of work in 1 us"
    assert d(3_000_000, 0, 4000, 1000) == 2 * ONE_Q16, "the deadline has passed"
    assert d(0, 1, 4000, 1000) == ONE_Q16 // 2


@given(flows)
def test_imminence__any_input_is_within_its_bounds(laws: ModuleType, flow: Flow) -> None:
    assert ONE_Q16 // 2 <= laws.lib.sl_d2tcp_imminence_q16(*flow) <= 2 * ONE_Q16


@given(flows)
def test_imminence__too_large_inputs_count_as_the_largest(laws: ModuleType, flow: Flow) -> None:
    remaining_bytes, left_us, window_bytes, rtt_us = flow
    bounded = (min(remaining_bytes, LARGEST), min(left_us, LARGEST), min(window_bytes, LARGEST // 3), rtt_us)
    assert laws.lib.sl_d2tcp_imminence_q16(*flow) == laws.lib.sl_d2tcp_imminence_q16(*bounded)


def test_imminence__of_windows_beyond_a_third_of_the_largest(laws: ModuleType) -> None:
    """2^44 / 3 bytes a second at the peak are 2^42 on average: 2^44 bytes in 4 seconds."""
    d = laws.lib.sl_d2tcp_imminence_q16
    for window_bytes in (LARGEST // 3, LARGEST // 3 + 1, LARGEST * 2 // 5, LARGEST, 2**64 - 1):
        assert d(LARGEST, 4_000_000, window_bytes, 1_000_000) == ONE_Q16
    assert abs(d(LARGEST, 4_000_000, LARGEST * 3 // 10, 1_000_000) - ONE_Q16 * 10 / 9) <= 1


@given(u64, u64, u32, u64)
def test_imminence__without_a_rate_or_time_is_the_largest(
    laws: ModuleType, remaining_bytes: int, left_us: int, rtt_us: int, window_bytes: int
) -> None:
    d = laws.lib.sl_d2tcp_imminence_q16
    assert (
        d(remaining_bytes, 0, window_bytes, rtt_us) == d(remaining_bytes, left_us, 0, rtt_us) == 2 * ONE_Q16
    )


@given(flows, u64)
def test_imminence__grows_with_the_bytes_left_and_with_time(laws: ModuleType, flow: Flow, less: int) -> None:
    remaining_bytes, left_us, window_bytes, rtt_us = flow
    d = laws.lib.sl_d2tcp_imminence_q16
    assert d(max(0, remaining_bytes - less), left_us, window_bytes, rtt_us) <= d(*flow)
    assert d(remaining_bytes, max(0, left_us - less), window_bytes, rtt_us) >= d(*flow)


@given(alphas, imminences)
def test_penalty__is_the_share_to_the_imminence(laws: ModuleType, alpha_q20: int, imminence_q16: int) -> None:
    real = ONE_Q20 * (alpha_q20 / ONE_Q20) ** (imminence_q16 / ONE_Q16)
    assert abs(laws.lib.sl_d2tcp_penalty_q20(alpha_q20, imminence_q16) - real) < 2


@given(alphas, imminences, imminences)
def test_penalty__a_nearer_deadline_is_never_cut_harder(
    laws: ModuleType, alpha_q20: int, one: int, other: int
) -> None:
    penalty = laws.lib.sl_d2tcp_penalty_q20
    assert penalty(alpha_q20, max(one, other)) <= penalty(alpha_q20, min(one, other))


@given(alphas, u32)
def test_penalty__at_one_the_cut_is_dctcps_own(laws: ModuleType, alpha_q20: int, cwnd: int) -> None:
    penalty = laws.lib.sl_d2tcp_penalty_q20(alpha_q20, laws.lib.SL_D2TCP_ONE_Q16)
    assert penalty == alpha_q20
    assert laws.lib.sl_dctcp_cwnd(cwnd, penalty) == laws.lib.sl_dctcp_cwnd(cwnd, alpha_q20)
