# SPDX-License-Identifier: Apache-2.0
"""Inputs for the laws of laws/datcp.h, and its structures in C."""

from fractions import Fraction
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from tests.unit.dataplane import datcp_paper as paper
from tests.unit.dataplane.datcp_paper import Goal, Window
from tests.unit.dataplane.law_driver import u64

ONE = 2**16
U64 = 2**64 - 1
PRODUCT_FITS = 2**47
"""g is exact for smaller distances between rates, otherwise within one unit."""


def q16(units: int) -> Fraction:
    return Fraction(units, ONE)


TOP = 64 * ONE
"""U_max and P_max."""
THETA = paper.THETA_MAX

urgencies = st.one_of(st.integers(ONE // 2, TOP), st.integers(ONE // 2, ONE // 2 + 4000))
near_rates = st.tuples(st.integers(1, 2**47), st.floats(-0.1, 0.1)).map(
    lambda r: (r[0], int(r[0] * (1 + r[1])))
)
rates = st.one_of(st.tuples(u64, u64), near_rates, u64.map(lambda r: (r, r)))
goals = st.builds(
    Goal,
    timed=st.sampled_from([True, True, True, False]),
    may_quench=st.sampled_from([True, True, True, False]),
    importance=st.one_of(st.just(1000), st.integers(0, 8000)).map(lambda i: Fraction(i, 1000)),
    phi=st.one_of(st.just(0), st.integers(0, 1000)).map(lambda i: Fraction(i, 1000)),
)


def c_goal(laws: ModuleType, goal: Goal) -> Any:
    importance_milli, phi_milli = int(goal.importance * 1000), int(goal.phi * 1000)
    return laws.ffi.new("struct sl_datcp_goal *", (goal.timed, goal.may_quench, importance_milli, phi_milli))


def c_window(laws: ModuleType, w: Window, draw: int = 0) -> Any:
    return laws.ffi.new(
        "struct sl_datcp_window *",
        (w.v_rtt, w.t_rtt_us, w.v_remain, w.t_remain_us, w.slow_start, draw),
    )


# Algorithm 2


def state(laws: ModuleType, **fields: int) -> Any:
    return laws.ffi.new("struct sl_datcp_state *", fields)
