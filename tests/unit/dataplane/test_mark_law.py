# SPDX-License-Identifier: Apache-2.0
"""laws/mark.h against the queue's equation in rational numbers: every verdict must be the same, exactly."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

PASS, MARK, DROP = 0, 1, 2
MAX_BYTES = 2 * 10**9

rates_bps = st.one_of(st.integers(1, 10**4), st.integers(10**6, 4 * 10**11), st.just(2**64 - 1))
sizes_bytes = st.one_of(st.just(0), st.integers(1, 10**6), st.integers(1, 2**64 - 1))
arrivals = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 1600), st.integers(0, 2**32 - 1)),
        st.one_of(st.integers(0, 10**5), st.integers(0, 10**10)),
    ),
    max_size=80,
)


class RealQueue:
    """The page on top of mark.h, with a real-valued backlog."""

    def __init__(self, rate_bps: int, mark_bytes: int, buffer_bytes: int) -> None:
        self.rate, self.mark = rate_bps, mark_bytes if 0 < mark_bytes <= MAX_BYTES else None
        self.buffer = min(buffer_bytes or MAX_BYTES, MAX_BYTES)
        self.backlog, self.then_ns = Fraction(0), 0

    def arrive(self, len_bytes: int, now_ns: int) -> int:
        drained = Fraction(self.rate * (now_ns - self.then_ns), 8 * 10**9)
        self.backlog, self.then_ns = max(Fraction(0), self.backlog - drained), now_ns
        found = self.backlog
        if found + len_bytes > self.buffer:
            return DROP
        self.backlog += len_bytes
        return MARK if self.mark is not None and found > self.mark else PASS


@given(rate_bps=rates_bps, mark_bytes=sizes_bytes, buffer_bytes=sizes_bytes, packets=arrivals)
def test_arrive__is_the_real_queue_exactly(laws, rate_bps, mark_bytes, buffer_bytes, packets):
    state = laws.ffi.new("struct sl_vq_state *")
    settings = laws.ffi.new("struct sl_vq_settings *", (rate_bps, mark_bytes, buffer_bytes))
    real, now_ns = RealQueue(rate_bps, mark_bytes, buffer_bytes), 0
    for len_bytes, later_ns in packets:
        now_ns += later_ns
        assert laws.lib.sl_vq_arrive(state, settings, len_bytes, now_ns) == real.arrive(len_bytes, now_ns)
        assert laws.lib.sl_vq_backlog_bytes(state) == int(real.backlog)


def queue(laws, *, rate_bps=10**8, mark_bytes=0, buffer_bytes=0):
    return (
        laws.ffi.new("struct sl_vq_state *"),
        laws.ffi.new("struct sl_vq_settings *", (rate_bps, mark_bytes, buffer_bytes)),
    )


def test_arrive__marks_the_packet_that_finds_more_than_k(laws):
    state, settings = queue(laws, mark_bytes=3000)
    verdicts = [laws.lib.sl_vq_arrive(state, settings, 1500, 1) for _ in range(4)]
    assert verdicts == [PASS, PASS, PASS, MARK], "the third finds 3000, not more; the fourth 4500"


def test_arrive__drops_what_does_not_fit_and_admits_what_does(laws):
    state, settings = queue(laws, buffer_bytes=3000)
    assert [laws.lib.sl_vq_arrive(state, settings, 1500, 1) for _ in range(3)] == [PASS, PASS, DROP]
    assert laws.lib.sl_vq_backlog_bytes(state) == 3000, "a dropped packet takes no room"
    drain_ns = 1500 * 80
    assert laws.lib.sl_vq_arrive(state, settings, 1500, drain_ns) == DROP, "one nanosecond early"
    assert laws.lib.sl_vq_arrive(state, settings, 1500, 1 + drain_ns) == PASS


def test_arrive__no_rate_means_no_queue(laws):
    state, settings = queue(laws, rate_bps=0, mark_bytes=1, buffer_bytes=1)
    assert [laws.lib.sl_vq_arrive(state, settings, 9000, 1) for _ in range(5)] == [PASS] * 5


def test_arrive__time_does_not_run_backwards(laws):
    state, settings = queue(laws)
    laws.lib.sl_vq_arrive(state, settings, 3000, 10**9)
    laws.lib.sl_vq_arrive(state, settings, 0, 5)
    laws.lib.sl_vq_arrive(state, settings, 0, 10**9 + 1500 * 80)
    assert laws.lib.sl_vq_backlog_bytes(state) == 1500, "drained once for each nanosecond"


def test_drain__loses_nothing_to_rounding(laws):
    """A hundred thousand drains of 7 ns take what one of 700 us takes."""
    often, once = laws.ffi.new("struct sl_vq_state *"), laws.ffi.new("struct sl_vq_state *")
    often.level = once.level = 10**15
    for i in range(1, 100_001):
        laws.lib.sl_vq_drain(often, 3, 7 * i)
    laws.lib.sl_vq_drain(once, 3, 700_000)
    assert often.level == once.level == 10**15 - 3 * 700_000


def test_drain__keeps_what_is_less_than_a_nanoseconds_worth(laws):
    state = laws.ffi.new("struct sl_vq_state *", (7 * 10**9 + 3, 0))
    laws.lib.sl_vq_drain(state, 10**9, 7)
    assert state.level == 3
    laws.lib.sl_vq_drain(state, 10**9, 8)
    assert state.level == 0
