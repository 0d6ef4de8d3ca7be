# SPDX-License-Identifier: Apache-2.0
"""laws/dctcp.h against RFC 8257 in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

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


def test_alpha__settles_at_the_marked_share(laws: ModuleType) -> None:
    for marked, acked in ((0, 10), (1, 10), (1, 3), (10, 10)):
        alpha = laws.lib.SL_DCTCP_ALPHA_ONE
        for _ in range(400):
            alpha = laws.lib.sl_dctcp_alpha(alpha, acked, marked)
        assert abs(Fraction(alpha, ONE) - Fraction(marked, acked)) < ALPHA_ERROR


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


def test_cwnd__full_marking_halves_and_none_keeps(laws: ModuleType) -> None:
    assert laws.lib.sl_dctcp_cwnd(100, ONE) == 50
    assert laws.lib.sl_dctcp_cwnd(100, 0) == 100
    assert laws.lib.sl_dctcp_cwnd(0, ONE) == laws.lib.sl_dctcp_cwnd(3, ONE) == 2


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
