# SPDX-License-Identifier: Apache-2.0
"""laws/reduction.h against RFC 6937 and RFC 2861."""

from __future__ import annotations

from math import ceil
from types import ModuleType

from hypothesis import example, given
from hypothesis import strategies as st

U32 = 2**32 - 1
u32 = st.one_of(st.integers(0, 200), st.integers(0, U32))


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
@given(before=u32, target=u32, delivered=u32, newly=u32, sent=u32, in_flight=u32)
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
@given(cwnd=u32, initial=st.integers(1, 100), timeouts=u32)
def test_idle_cwnd__halves_for_each_timeout_down_to_the_initial_window(
    laws: ModuleType, cwnd: int, initial: int, timeouts: int
) -> None:
    expected = max(min(initial, cwnd), cwnd >> min(timeouts, 40))
    assert laws.lib.sl_idle_cwnd(cwnd, initial, timeouts) == expected


@example(ssthresh=5, cwnd=40)
@example(ssthresh=2**32 - 1, cwnd=2**32 - 1)
@given(ssthresh=u32, cwnd=u32)
def test_idle_ssthresh__is_three_quarters_of_the_window_or_as_before(
    laws: ModuleType, ssthresh: int, cwnd: int
) -> None:
    assert laws.lib.sl_idle_ssthresh(ssthresh, cwnd) == max(ssthresh, cwnd // 2 + cwnd // 4)
