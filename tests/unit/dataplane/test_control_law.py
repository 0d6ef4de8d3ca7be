# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.unit.dataplane.datcp_inputs import THETA, state


def test_window_flags__each_is_a_bit_of_its_own(laws: ModuleType) -> None:
    flags = (laws.lib.SL_WINDOW_SLOW_START, laws.lib.SL_WINDOW_HAS_DEADLINE, laws.lib.SL_WINDOW_HAS_SIZE)
    assert [flag.bit_count() for flag in flags] == [1, 1, 1]
    assert len({*flags}) == len(flags)


def test_phases__have_the_numbers_of_the_programs(laws: ModuleType) -> None:
    """sluice.h has the same, and the log of windows stores them."""
    lib = laws.lib
    assert [lib.SL_SENDING, lib.SL_SUSPENDED, lib.SL_KILLED] == [0, 1, 2]
    assert [lib.SL_QUENCH_NEVER, lib.SL_QUENCH_KILL, lib.SL_QUENCH_SUSPEND] == [0, 1, 2]


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


def test_has__needs_every_flag(laws: ModuleType) -> None:
    for given in all_sets(laws):
        for asked in all_sets(laws):
            assert bool(laws.lib.sl_window_has(window(laws, given), asked)) == (given & asked == asked)


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


def test_ucp__counts_each_nanosecond(laws: ModuleType) -> None:
    lib = laws.lib
    for elapsed_ns, left_ns in ((0, 1), (1, 1), (1, 3), (5, 7)):
        w = window(laws, lib.SL_WINDOW_HAS_DEADLINE, elapsed_ns=elapsed_ns, left_ns=left_ns)
        lib.sl_control_ucp(w)
        assert w.urgency_q16 == lib.sl_ucp_urgency_q16(1, 1 + elapsed_ns + left_ns, 1 + elapsed_ns)


def test_window_ns__has_a_greatest_value(laws: ModuleType) -> None:
    assert [laws.lib.sl_window_ns(ns) for ns in (0, 2**62 - 1, 2**62, 2**64 - 1)] == [
        0,
        2**62 - 1,
        2**62,
        2**62,
    ]


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
