# SPDX-License-Identifier: Apache-2.0
"""Laws of TCP windows: laws/dctcp.h, laws/reduction.h, and what every congestion control does around them."""

from fractions import Fraction
from math import ceil
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.dataplane.datcp_paper import THETA, state

# laws/dctcp.h against RFC 8257 in rational numbers.


ONE = 1 << 20
G = Fraction(1, 16)
ALPHA_ERROR = Fraction(16, ONE)
U32 = 2**32 - 1

u32 = st.one_of(st.integers(0, 100), st.integers(0, U32), st.integers(U32 - 100, U32))
windows = st.lists(
    st.integers(0, 2**20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=300
)


@given(windows)
def test_alpha__stays_within_its_error_of_the_real_average(
    laws: ModuleType, seen: list[tuple[int, int]]
) -> None:
    alpha, real = laws.lib.SL_DCTCP_ALPHA_ONE, Fraction(1)
    for acked, marked in seen:
        alpha = laws.lib.sl_dctcp_alpha(alpha, acked, marked)
        if acked:
            real = (1 - G) * real + G * Fraction(marked, acked)
            real = Fraction(round(real * 2**60), 2**60)  # keeps the fractions short, far below the error
        assert abs(Fraction(alpha, ONE) - real) < ALPHA_ERROR
        assert alpha <= ONE


@given(alpha=st.integers(0, ONE), acked=u32, marked=u32)
def test_alpha__any_counts(laws: ModuleType, alpha: int, acked: int, marked: int) -> None:
    got = laws.lib.sl_dctcp_alpha(alpha, acked, marked)
    assert 0 <= got <= ONE
    if not acked:
        assert got == alpha


@given(cwnd=u32, alpha=st.integers(0, ONE))
def test_cwnd__is_the_cut_to_the_nearest_packet_but_at_least_two(
    laws: ModuleType, cwnd: int, alpha: int
) -> None:
    real = max(Fraction(2), cwnd * (1 - Fraction(alpha, 2 * ONE)))
    assert abs(laws.lib.sl_dctcp_cwnd(cwnd, alpha) - real) <= Fraction(1, 2)


@given(u32)
def test_loss_cwnd__is_half_but_at_least_two(laws: ModuleType, cwnd: int) -> None:
    assert laws.lib.sl_loss_cwnd(cwnd) == max(2, cwnd // 2)


@given(start=u32, acked=u32, marked=u32, ahead=st.integers(0, 2**30), delivered=st.integers(0, 2**31))
def test_window__ends_when_its_last_byte_is_acknowledged_and_returns_its_counts(
    laws: ModuleType, start: int, acked: int, marked: int, ahead: int, delivered: int
) -> None:
    window, held = laws.ffi.new("struct sl_window *"), laws.ffi.new("struct sl_window_sum *")
    snd_nxt = (start + ahead) % 2**32
    laws.lib.sl_window_begin(window, snd_nxt, acked, marked)
    now_acked, now_marked = (acked + delivered) % 2**32, (marked + delivered // 3) % 2**32
    if ahead:
        before = (snd_nxt - 1) % 2**32
        assert not laws.lib.sl_window_ended(window, before, snd_nxt, now_acked, now_marked, held)
    assert laws.lib.sl_window_ended(window, snd_nxt, (snd_nxt + 1000) % 2**32, now_acked, now_marked, held)
    assert (held.acked, held.marked) == (delivered, delivered // 3)
    assert window.end_seq == (snd_nxt + 1000) % 2**32
    assert (window.acked, window.marked) == (now_acked, now_marked)


# ── laws/reduction.h against RFC 6937 and RFC 2861 ─────────────────────────────────────────────


u32_values = st.one_of(st.integers(0, 200), st.integers(0, U32))


def rfc6937_cwnd(before: int, target: int, delivered: int, newly: int, sent: int, in_flight: int) -> int:
    """Return section 3's window in packets, with at least one packet at the start (the fast retransmit)."""
    if in_flight > target:
        may_send = -(-delivered * target // max(before, 1)) - sent
    else:
        may_send = min(target - in_flight, max(delivered - sent, newly) + 1)
    may_send = max(may_send, 0)
    if sent == 0:
        may_send = max(may_send, 1)
    return min(in_flight + may_send, U32)


@example(before=0, target=3, delivered=5, newly=1, sent=2, in_flight=9)
@example(before=10, target=1, delivered=11, newly=1, sent=1, in_flight=5)
@given(
    before=u32_values,
    target=u32_values,
    delivered=u32_values,
    newly=u32_values,
    sent=u32_values,
    in_flight=u32_values,
)
def test_reduced_cwnd__is_the_rfcs(
    laws: ModuleType, before: int, target: int, delivered: int, newly: int, sent: int, in_flight: int
) -> None:
    reduction = laws.ffi.new("struct sl_reduction *", (before, target, delivered, newly, sent))
    expected = rfc6937_cwnd(before, target, delivered, newly, sent, in_flight)
    assert laws.lib.sl_reduced_cwnd(reduction, in_flight) == expected


@given(before=st.integers(4, 1000), share=st.floats(0.5, 1.0))
def test_reduced_cwnd__reaches_the_target_within_one_window(
    laws: ModuleType, before: int, share: float
) -> None:
    target = ceil(before * share)
    in_flight, sent = before, 0
    for acked in range(1, before + 1):
        in_flight -= 1
        reduction = laws.ffi.new("struct sl_reduction *", (before, target, acked, 1, sent))
        cwnd = laws.lib.sl_reduced_cwnd(reduction, in_flight)
        sent, in_flight = sent + max(0, cwnd - in_flight), max(cwnd, in_flight)
    assert target - 1 <= in_flight <= target + 1


@example(cwnd=1000, initial=10, timeouts=31)
@example(cwnd=1000, initial=10, timeouts=32)
@given(cwnd=u32_values, initial=st.integers(1, 100), timeouts=u32_values)
def test_idle_cwnd__halves_for_each_timeout_down_to_the_initial_window(
    laws: ModuleType, cwnd: int, initial: int, timeouts: int
) -> None:
    expected = max(min(initial, cwnd), cwnd >> min(timeouts, 40))
    assert laws.lib.sl_idle_cwnd(cwnd, initial, timeouts) == expected


@example(ssthresh=5, cwnd=40)
@example(ssthresh=2**32 - 1, cwnd=2**32 - 1)
@given(ssthresh=u32_values, cwnd=u32_values)
def test_idle_ssthresh__is_three_quarters_of_the_window_or_as_before(
    laws: ModuleType, ssthresh: int, cwnd: int
) -> None:
    assert laws.lib.sl_idle_ssthresh(ssthresh, cwnd) == max(ssthresh, cwnd // 2 + cwnd // 4)


def window(laws: ModuleType, flags: int = 0, **fields: int) -> Any:
    """Return the record of a window of 20 packets with a quarter of its marks."""
    record = {
        "acked_bytes": 29_200,
        "took_us": 1_000,
        "remaining_bytes": 1_000_000,
        "left_ns": 8_000_000,
        "elapsed_ns": 2_000_000,
        "acked": 20,
        "cwnd": 20,
        "rtt_us": 900,
        "mss_bytes": 1_460,
        "alpha_q20": 2**18,
    }
    return laws.ffi.new("struct sl_window_record *", {**record, "flags": flags, **fields})


def all_sets(laws: ModuleType) -> list[int]:
    lib = laws.lib
    return [
        0,
        lib.SL_WINDOW_HAS_DEADLINE,
        lib.SL_WINDOW_HAS_SIZE,
        lib.SL_WINDOW_HAS_DEADLINE | lib.SL_WINDOW_HAS_SIZE,
    ]


def test_d2tcp__imminence_needs_deadline_and_size(laws: ModuleType) -> None:
    lib = laws.lib
    imminence = lib.sl_d2tcp_imminence_q16(200_000, 8_000, 20 * 1_460, 900)
    assert lib.SL_D2TCP_MIN_Q16 < imminence < lib.SL_D2TCP_MAX_Q16
    for flags in all_sets(laws):
        w = window(laws, flags, urgency_q16=7, remaining_bytes=200_000)
        lib.sl_control_d2tcp(w)
        assert w.urgency_q16 == (imminence if flags == all_sets(laws)[-1] else 7)
        assert w.penalty_q20 == lib.sl_d2tcp_penalty_q20(2**18, w.urgency_q16)


def test_mcp__bound_needs_deadline_and_size(laws: ModuleType) -> None:
    lib = laws.lib
    bound = lib.sl_mcp_bound(100_000_000, 8_000, 900, 1_460)
    assert bound > 2_000, "so that a thousandth counts"
    for flags in all_sets(laws):
        w = window(laws, flags, remaining_bytes=100_000_000)
        lib.sl_control_mcp(w)
        assert w.bound == (bound if flags == all_sets(laws)[-1] else 0)
        assert w.penalty_q20 == 2**18


def test_ucp__urgency_needs_a_deadline(laws: ModuleType) -> None:
    lib = laws.lib
    urgency = lib.sl_ucp_urgency_q16(1, 1 + 10_000_000, 1 + 2_000_000)
    for flags in all_sets(laws):
        w = window(laws, flags, urgency_q16=7)
        lib.sl_control_ucp(w)
        assert w.urgency_q16 == (urgency if flags & lib.SL_WINDOW_HAS_DEADLINE else 7)
        assert w.penalty_q20 == lib.sl_ucp_penalty_q20(2**18, w.urgency_q16)


TIMED = {"timed": 1, "may_quench": 1, "importance_milli": 1000, "importance_share_milli": 0}


def test_datcp__counts_the_time_that_is_left_in_microseconds(laws: ModuleType) -> None:
    lib, s = laws.lib, state(laws)
    w = window(laws)
    lib.sl_control_datcp(s, laws.ffi.new("struct sl_datcp_goal *", TIMED), lib.SL_QUENCH_NEVER, 500, w)
    assert s.desired_bytes_per_s == lib.sl_rate_bytes_per_s(1_000_000, lib.sl_datcp_left_us(8_000, 900))
    assert (w.rate_bytes_per_s, w.urgency_q16, w.precedence_q16) == (
        s.average_bytes_per_s,
        s.urgency_q16,
        s.precedence_q16,
    )
    assert w.penalty_q20 == lib.sl_datcp_decrease_q16(w.precedence_q16) << 5
    assert (w.phase, w.bound) == (lib.SL_SENDING, 0)


def test_datcp__slow_start_takes_the_last_rate(laws: ModuleType) -> None:
    lib, goal = laws.lib, laws.ffi.new("struct sl_datcp_goal *", TIMED)
    last = lib.sl_rate_bytes_per_s(29_200, 1_000)
    for flags in (0, lib.SL_WINDOW_SLOW_START):
        s = state(laws, average_bytes_per_s=1_000_000)
        lib.sl_control_datcp(s, goal, lib.SL_QUENCH_NEVER, 500, window(laws, flags))
        assert s.average_bytes_per_s == lib.sl_datcp_average(1_000_000, last, flags)
    assert s.average_bytes_per_s == last


@pytest.mark.parametrize(
    ("on_quench", "phase"), [("SL_QUENCH_KILL", "SL_KILLED"), ("SL_QUENCH_SUSPEND", "SL_SUSPENDED")]
)
def test_datcp__what_a_quenched_flow_becomes(laws: ModuleType, on_quench: str, phase: str) -> None:
    lib = laws.lib
    s = state(laws, average_bytes_per_s=2**40, fruitless=THETA - 1, raised=1)
    w = window(laws, random=2**32 - 1)
    lib.sl_control_datcp(s, laws.ffi.new("struct sl_datcp_goal *", TIMED), getattr(lib, on_quench), 500, w)
    assert (w.phase, w.bound) == (getattr(lib, phase), lib.SL_MIN_CWND)
    assert s.average_bytes_per_s == 0


def test_datcp__a_suspended_flow_continues_and_a_killed_one_does_not(laws: ModuleType) -> None:
    lib, goal = laws.lib, laws.ffi.new("struct sl_datcp_goal *", TIMED)
    for phase, after in ((lib.SL_SUSPENDED, lib.SL_SENDING), (lib.SL_KILLED, lib.SL_KILLED)):
        s = state(laws, rtt_at_quench_us=2_000)
        for _ in range(1_000):
            w = window(laws, phase=phase, rtt_us=500)
            lib.sl_control_datcp(s, goal, lib.SL_QUENCH_SUSPEND, 500, w)
            if w.phase == lib.SL_SENDING:
                break
        assert w.phase == after
