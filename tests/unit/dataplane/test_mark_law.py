# SPDX-License-Identifier: Apache-2.0
"""laws/mark.h against the queues' equations in rational numbers: every verdict must be the same, exactly."""

from fractions import Fraction
from types import ModuleType
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

PASS, MARK, DROP = 0, 1, 2
MAX_BYTES = 2 * 10**9
UNITS = 8 * 10**9
"""Units of a level in a byte."""

rates_bps = st.one_of(st.integers(1, 10**4), st.integers(10**6, 4 * 10**11), st.just(2**64 - 1))
sizes_bytes = st.one_of(st.just(0), st.integers(1, 10**6), st.integers(1, 2**64 - 1))
randoms = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
arrivals = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 1600), st.integers(0, 2**32 - 1)),
        st.one_of(st.integers(0, 10**5), st.integers(0, 10**10)),
        randoms,
    ),
    max_size=80,
)
Packets = list[tuple[int, int, int]]
"""Length in bytes, ns since the last packet, random number."""


class RealQueue:
    """The description on top of mark.h, with real-valued levels."""

    def __init__(
        self,
        rate_bps: int,
        mark_bytes: int,
        buffer_bytes: int,
        mark_max_bytes: int = 0,
        phantom_rate_bps: int = 0,
        phantom_mark_bytes: int = 0,
        mark_most_q32: int = 0,
    ) -> None:
        self.rate, self.phantom_rate, self.phantom_mark = rate_bps, phantom_rate_bps, phantom_mark_bytes
        self.low = mark_bytes if 0 < mark_bytes <= MAX_BYTES else None
        self.high = max(mark_bytes, min(mark_max_bytes, MAX_BYTES))
        self.buffer = min(buffer_bytes or MAX_BYTES, MAX_BYTES)
        self.most = Fraction(mark_most_q32 or 2**32, 2**32)
        self.backlog, self.phantom, self.then_ns = Fraction(0), Fraction(0), 0

    def drain(self, now_ns: int) -> None:
        elapsed_s8 = Fraction(now_ns - self.then_ns, 8 * 10**9)
        sent = min(self.backlog, self.rate * elapsed_s8)
        self.backlog, self.then_ns = self.backlog - sent, now_ns
        grown = max(Fraction(0), self.phantom + sent - self.phantom_rate * elapsed_s8)
        self.phantom = min(grown, Fraction(self.buffer)) if self.phantom_rate else Fraction(0)

    def backlog_marks(self, random: int) -> bool:
        if self.low is None or self.backlog <= self.low:
            return False
        if self.backlog > self.high:
            return True
        return Fraction(random, 2**32) < self.most * Fraction(
            int(self.backlog) - self.low, self.high - self.low
        )

    def arrive(self, len_bytes: int, now_ns: int, random: int) -> int:
        self.drain(now_ns)
        if self.backlog + len_bytes > self.buffer:
            return DROP
        marks = self.backlog_marks(random) or (self.phantom_rate > 0 and self.phantom > self.phantom_mark)
        self.backlog += len_bytes
        return MARK if marks else PASS


def same_as_the_real_queue(laws: ModuleType, settings: tuple[int, ...], packets: Packets) -> None:
    state = laws.ffi.new("struct sl_vq_state *")
    given = laws.ffi.new("struct sl_vq_settings *", settings)
    real, now_ns = RealQueue(*settings), 0
    for len_bytes, later_ns, random in packets:
        now_ns += later_ns
        verdict = laws.lib.sl_vq_arrive(state, given, len_bytes, now_ns, random)
        assert verdict == real.arrive(len_bytes, now_ns, random)
        assert laws.lib.sl_vq_backlog_bytes(state) == int(real.backlog)
        assert state.phantom == real.phantom * UNITS


@given(
    settings=st.tuples(rates_bps, sizes_bytes, sizes_bytes, sizes_bytes, st.just(0) | rates_bps, sizes_bytes),
    packets=arrivals,
)
def test_arrive__is_the_real_queue_exactly(
    laws: ModuleType, settings: tuple[int, ...], packets: Packets
) -> None:
    """Also without a ramp or a phantom queue, whose sizes are 0."""
    same_as_the_real_queue(laws, settings, packets)


@given(
    low_bytes=st.integers(1, 10**6),
    width_bytes=st.integers(1, 10**6),
    gamma=st.integers(1, 120),
    threshold_bytes=st.integers(0, 10**5),
    most_q32=st.integers(0, 2**32),
    packets=st.lists(
        st.tuples(st.integers(0, 65_000), st.integers(0, 400_000), randoms), min_size=20, max_size=120
    ),
)
def test_arrive__near_the_thresholds_of_a_busy_port(
    laws: ModuleType,
    low_bytes: int,
    width_bytes: int,
    gamma: int,
    threshold_bytes: int,
    most_q32: int,
    packets: Packets,
) -> None:
    """All three rules apply in these ranges, because about as much arrives as drains."""
    settings = (10**9, low_bytes, 0, low_bytes + width_bytes, 10**7 * gamma, threshold_bytes, most_q32)
    same_as_the_real_queue(laws, settings, packets)


def queue(
    laws: ModuleType,
    *,
    rate_bps: int = 10**8,
    mark_bytes: int = 0,
    buffer_bytes: int = 0,
    mark_max_bytes: int = 0,
    phantom: tuple[int, int] = (0, 0),
) -> tuple[Any, Any]:
    settings = (rate_bps, mark_bytes, buffer_bytes, mark_max_bytes, *phantom)
    return laws.ffi.new("struct sl_vq_state *"), laws.ffi.new("struct sl_vq_settings *", settings)


def arrive(laws: ModuleType, state: Any, settings: Any, len_bytes: int, now_ns: int, random: int = 0) -> int:
    return int(laws.lib.sl_vq_arrive(state, settings, len_bytes, now_ns, random))


def test_arrive__drops_only_packets_that_do_not_fit(laws: ModuleType) -> None:
    state, settings = queue(laws, buffer_bytes=3000)
    assert [arrive(laws, state, settings, 1500, 1) for _ in range(3)] == [PASS, PASS, DROP]
    assert laws.lib.sl_vq_backlog_bytes(state) == 3000, "a dropped packet takes no room"
    drain_ns = 1500 * 80
    assert arrive(laws, state, settings, 1500, drain_ns) == DROP, "one nanosecond early"
    assert arrive(laws, state, settings, 1500, 1 + drain_ns) == PASS


def test_arrive__the_largest_packet_fits_the_largest_buffer(laws: ModuleType) -> None:
    assert arrive(laws, *queue(laws, buffer_bytes=0), MAX_BYTES, 1) == PASS
    assert arrive(laws, *queue(laws, buffer_bytes=0), MAX_BYTES + 1, 1) == DROP


def test_arrive__no_rate_means_no_queue(laws: ModuleType) -> None:
    state, settings = queue(laws, rate_bps=0, mark_bytes=1, buffer_bytes=1)
    assert [arrive(laws, state, settings, 9000, 1) for _ in range(5)] == [PASS] * 5


def test_arrive__time_does_not_run_backwards(laws: ModuleType) -> None:
    state, settings = queue(laws)
    arrive(laws, state, settings, 3000, 10**9)
    arrive(laws, state, settings, 0, 5)
    arrive(laws, state, settings, 0, 10**9 + 1500 * 80)
    assert laws.lib.sl_vq_backlog_bytes(state) == 1500, "drained once for each nanosecond"


def levels(laws: ModuleType, settings: Any, backlog_bytes: int | Fraction, random: int) -> int:
    """Return the verdict on an empty packet that finds this backlog."""
    state = laws.ffi.new("struct sl_vq_state *", (int(backlog_bytes * UNITS), 1, 0))
    return arrive(laws, state, settings, 0, 1, random)


@given(
    low=st.integers(1, MAX_BYTES),
    high=st.integers(1, MAX_BYTES),
    found=st.integers(0, MAX_BYTES),
)
def test_ramp__probability_is_the_line(laws: ModuleType, low: int, high: int, found: int) -> None:
    """The smallest of the 2^32 random numbers mark. Their number is that of the line, within one."""
    _, settings = queue(laws, mark_bytes=low, mark_max_bytes=high)
    share = (
        Fraction(min(max(found - low, 0), max(high - low, 0)), high - low) if high > low else int(found > low)
    )
    first_passed = -(-(share * 2**32) // 1)
    if first_passed > 0:
        assert levels(laws, settings, found, int(first_passed) - 1) == MARK
    if first_passed < 2**32:
        assert levels(laws, settings, found, int(first_passed)) == PASS


def test_phantom__switched_off_is_cleared(laws: ModuleType) -> None:
    state, settings = queue(laws, phantom=(1, 0))
    arrive(laws, state, settings, 1500, 1)
    arrive(laws, state, settings, 1500, 10**9)
    assert state.phantom > 0
    settings.phantom_rate_bps = 0
    assert arrive(laws, state, settings, 1500, 2 * 10**9) == PASS
    assert state.phantom == 0


@given(rate_bps=st.one_of(st.just(0), rates_bps), len_bytes=st.integers(0, 2**32 - 1), later_ns=st.integers(0, 10**10),
       real_bytes=st.integers(0, 2**32 - 1))  # fmt: skip
def test_at_least__keeps_the_virtual_backlog_from_falling_behind_the_real_one(
    laws: ModuleType, rate_bps: int, len_bytes: int, later_ns: int, real_bytes: int
) -> None:
    settings = laws.ffi.new("struct sl_vq_settings *", (rate_bps, 0, 0))
    state = laws.ffi.new("struct sl_vq_state *")
    laws.lib.sl_vq_arrive(state, settings, len_bytes, 0, 0)
    first = state.level
    behind = laws.lib.sl_vq_at_least(state, settings, real_bytes, later_ns)
    drained = max(0, first - rate_bps * later_ns)
    assert behind == (state.level - drained if rate_bps else 0)
    assert state.level == (max(drained, min(real_bytes, MAX_BYTES) * UNITS) if rate_bps else 0)


def test_at_least__waiting_packets_have_not_fed_the_phantom_queue(laws: ModuleType) -> None:
    """The link has sent 10 of 40 packets in the time of 30. The other 20 count when they really leave."""
    state, settings = queue(laws, phantom=(95 * 10**6, 6000))
    for _ in range(40):
        arrive(laws, state, settings, 1500, 1)
    now_ns = 1 + 30 * 120_000
    laws.lib.sl_vq_drain(state, settings, now_ns)
    assert laws.lib.sl_vq_phantom_bytes(state) == 30 * 1500 * 5 // 100
    laws.lib.sl_vq_at_least(state, settings, 30 * 1500, now_ns)
    assert laws.lib.sl_vq_backlog_bytes(state) == 30 * 1500
    assert state.phantom == 0
    laws.lib.sl_vq_drain(state, settings, now_ns + 30 * 120_000)
    assert laws.lib.sl_vq_phantom_bytes(state) == 30 * 1500 * 5 // 100
    state.phantom = 10**5 * UNITS
    laws.lib.sl_vq_at_least(state, settings, 1500, now_ns + 30 * 120_000)
    assert laws.lib.sl_vq_phantom_bytes(state) == 10**5 - 1500


@given(
    level=st.integers(0, MAX_BYTES * UNITS),
    phantom=st.integers(0, MAX_BYTES * UNITS),
    rate_bps=rates_bps,
    share=st.sampled_from([Fraction(1, 10**6), Fraction(95, 100), Fraction(1), Fraction(2)]),
    elapsed_ns=st.one_of(st.integers(1, 1000), st.integers(1, 10**12), st.just(2**64 - 1)),
)
@example(MAX_BYTES * UNITS, MAX_BYTES * UNITS, 2**64 - 1, Fraction(1, 10**6), 1)
def test_phantom__from_any_state(
    laws: ModuleType, level: int, phantom: int, rate_bps: int, share: Fraction, elapsed_ns: int
) -> None:
    """Includes levels whose sum exceeds 64 bits, and arrivals that equal the drain to the nanosecond."""
    phantom_rate = min(max(1, int(rate_bps * share)), 2**64 - 1)
    state, settings = queue(laws, rate_bps=rate_bps, phantom=(phantom_rate, 1))
    state.level, state.phantom = level, phantom
    laws.lib.sl_vq_drain(state, settings, elapsed_ns)
    sent = min(level, rate_bps * elapsed_ns)
    assert state.level == level - sent
    assert state.phantom == min(max(0, phantom + sent - phantom_rate * elapsed_ns), MAX_BYTES * UNITS)
