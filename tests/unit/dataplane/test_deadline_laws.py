# SPDX-License-Identifier: Apache-2.0
"""Laws that know deadlines or classes, each against its paper: UCP, D2TCP, MCP."""

from fractions import Fraction
from math import ceil, floor
from types import ModuleType

from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.unit.dataplane.law_driver import alphas, u32, u64

# laws/ucp.h against the slides of Aemon (Wang, Xu, Liu, APNet 2017, slides 24 and 25) in rational numbers.


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


@example((1000, 2000, 900))  # a start in the future is no time elapsed
@example((1000, 2000, 2000))
@example((1000, 0, 10**18))  # no deadline: as DCTCP
@example((0, 17_000, 16_000))
@example((0, 17_001, 16_000))
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


@given(alphas, urgencies)
def test_penalty__is_the_share_to_the_urgency(laws: ModuleType, alpha_q20: int, urgency_q16: int) -> None:
    real = ONE_Q20 * (alpha_q20 / ONE_Q20) ** min(EXPONENT_CAP, urgency_q16 / ONE_Q16)
    assert abs(laws.lib.sl_ucp_penalty_q20(alpha_q20, urgency_q16) - real) < 2


# laws/d2tcp.h against D2TCP (Vamanan, Hasan, Vijaykumar, SIGCOMM 2012, section 3) in rational numbers.


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


@given(alphas, imminences)
def test_penalty__is_the_share_to_the_imminence(laws: ModuleType, alpha_q20: int, imminence_q16: int) -> None:
    real = ONE_Q20 * (alpha_q20 / ONE_Q20) ** (imminence_q16 / ONE_Q16)
    assert abs(laws.lib.sl_d2tcp_penalty_q20(alpha_q20, imminence_q16) - real) < 2


# laws/mcp.h: the rate that completes a flow in time (Karuna, SIGCOMM 2016, section 4), in rational numbers.


LARGEST_BYTES = 2**44
LARGEST_RTT_US = 2**19
NO_BOUND = 2**31 - 1


def bound(remaining_bytes: int, left_us: int, rtt_us: int, mss_bytes: int) -> int:
    """Return ceil(gamma * RTT / MSS), at least 2, with gamma = V_remain / T_remain. NO_BOUND: no deadline ahead."""
    if 0 in (left_us, rtt_us, mss_bytes):
        return NO_BOUND
    gamma_bytes_per_us = Fraction(min(remaining_bytes, LARGEST_BYTES), left_us)
    packets = ceil(gamma_bytes_per_us * min(rtt_us, LARGEST_RTT_US) / mss_bytes)
    return min(NO_BOUND, max(2, packets))


@example(10_000_001, 1_000_000, 1000, 1000)  # not a byte a second too little
@example(1000, 0, 1000, 1000)
@example(10**6, 10**6, LARGEST_RTT_US + 1, 1)
@example(2**31 - 2, 1, 1, 1)
@given(u64, u64, u32, u32)
def test_bound__is_the_needed_rate_in_packets(
    laws: ModuleType, remaining_bytes: int, left_us: int, rtt_us: int, mss_bytes: int
) -> None:
    expected = bound(remaining_bytes, left_us, rtt_us, mss_bytes)
    assert laws.lib.sl_mcp_bound(remaining_bytes, left_us, rtt_us, mss_bytes) == expected
