# SPDX-License-Identifier: Apache-2.0
"""laws/rate.h in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dataplane.wide import u64, unsigned

U64 = 2**64 - 1


@given(unsigned(44), u64)
def test_rate__is_exact_and_rounded_down(laws: ModuleType, size_bytes: int, us: int) -> None:
    expected = floor(Fraction(size_bytes * 10**6, us)) if us else U64 * (size_bytes > 0)
    assert laws.lib.sl_rate_bytes_per_s(size_bytes, us) == expected


def test_rate__17_tb_in_one_go(laws: ModuleType) -> None:
    assert laws.lib.sl_rate_bytes_per_s(2**44, 1) == 2**44 * 10**6
    assert laws.lib.sl_rate_bytes_per_s(2**44, 3 * 10**6) == 2**44 // 3


@given(st.integers(2**44 + 1, U64), u64)
def test_rate__of_more_is_the_largest(laws: ModuleType, size_bytes: int, us: int) -> None:
    assert laws.lib.sl_rate_bytes_per_s(size_bytes, us) == laws.lib.SL_RATE_MAX == U64


@given(u64, u64)
def test_remaining__is_never_below_zero(laws: ModuleType, size_bytes: int, acked_bytes: int) -> None:
    assert laws.lib.sl_remaining_bytes(size_bytes, acked_bytes) == max(0, size_bytes - acked_bytes)


@given(u64, st.one_of(st.just(None), st.integers(-5000, 5000), u64))
def test_left__is_whole_microseconds_and_none_when_the_deadline_has_passed(
    laws: ModuleType, deadline_ns: int, now: int | None
) -> None:
    now_ns = deadline_ns if now is None else now if now > 5000 else min(U64, max(0, deadline_ns + now))
    assert laws.lib.sl_left_us(deadline_ns, now_ns) == max(0, deadline_ns - now_ns) // 1000
