# SPDX-License-Identifier: Apache-2.0
"""DATCP by the paper (Zhang et al., sections 3.1 to 3.3), in rational numbers of any size.

Rates are bytes a second. Values are exact, unless a Grid is given. Each value is then rounded down to the grid, as
laws/datcp.h does. At the end are inputs for the law, and its structures in C.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from tests.unit.dataplane.law_driver import u64

ALPHA = Fraction(1, 10)
"""Section 4.1: weight of the old average throughput."""
G = Fraction(1, 4)
U_MIN, U_MAX, P_MAX = Fraction(1, 2), Fraction(64), Fraction(64)
THETA_MAX = 12
"""The choices of laws/datcp.h. The paper leaves them open, except G in its figure 9."""
BEYOND_EVERYTHING = Fraction(2**64 - 1)
"""The rate of any bytes in no time."""


@dataclass(frozen=True)
class Grid:
    """The values to which a flow rounds."""

    rate: Callable[[Fraction], Fraction] = lambda x: x
    ratio: Callable[[Fraction], Fraction] = lambda x: x
    granularity: Fraction = G
    precedence_min: Fraction = Fraction(0)


# 2^-300 keeps the fractions short and is far below every allowed error.
EXACT = Grid(
    ratio=lambda x: Fraction(round(x * 2**300), 2**300), rate=lambda x: Fraction(round(x * 2**300), 2**300)
)
FIXED = Grid(
    rate=lambda x: Fraction(floor(x)),
    ratio=lambda x: Fraction(floor(x * 2**16), 2**16),
    granularity=Fraction(round(G * 2**16), 2**16),
    precedence_min=Fraction(1, 2**16),
)


@dataclass(frozen=True)
class Goal:
    """The goal of a flow."""

    timed: bool = True
    may_quench: bool = True
    importance: Fraction = Fraction(1)
    phi: Fraction = Fraction(0)


@dataclass(frozen=True)
class Window:
    """One window of data, and the bytes and time that remain after it."""

    v_rtt: int
    t_rtt_us: int
    v_remain: int
    t_remain_us: int
    slow_start: bool = False


def rate(size_bytes: int, us: int) -> Fraction:
    if us == 0:
        return BEYOND_EVERYTHING if size_bytes else Fraction(0)
    return Fraction(size_bytes * 10**6, us)


def granularity(r_desired: Fraction, r_avg: Fraction, most: Fraction) -> Fraction:
    """Return g: the distance in units of the present throughput, at most G. Without throughput, any distance is G."""
    distance = abs(r_desired - r_avg)
    if r_avg == 0:
        return most if distance else Fraction(0)
    return min(distance / r_avg, most)


def window_decrease(
    precedence: Fraction, p1: Fraction = Fraction(1), b1: Fraction = Fraction(1, 2)
) -> Fraction:
    """Return b2 of equation (5), P1 / P2 = (2 - b1) b2 / ((2 - b2) b1), at most 1. The equation is linear in b2."""
    return min(Fraction(1), 2 * p1 * b1 / (precedence * (2 - b1) + p1 * b1))


@dataclass
class Flow:
    """Algorithms 1 and 2."""

    goal: Goal
    grid: Grid = EXACT
    r_avg: Fraction | None = None
    r_desired: Fraction = Fraction(0)
    u: Fraction = Fraction(1)
    p: Fraction = Fraction(1)
    theta: int = 0
    increased: bool = field(default=False)
    """The last window raised the urgency, or would have raised it beyond its maximum."""

    def window(self, w: Window) -> Fraction:
        """Account for a received window of data, and return the probability that the flow is quenched now."""
        before = self.r_avg or Fraction(0)
        self._throughput(w)
        assert self.r_avg is not None
        self.r_desired = self.grid.rate(rate(w.v_remain, w.t_remain_us)) if self.goal.timed else Fraction(0)
        self._precedence()
        quench = self._quench(self.r_avg - before) if self.goal.may_quench else Fraction(0)
        self.increased = self.goal.timed and self.r_desired > self.r_avg
        return quench

    def _throughput(self, w: Window) -> None:
        r_last = self.grid.rate(rate(w.v_rtt, w.t_rtt_us))
        if w.slow_start or not self.r_avg:  # there is no average yet
            self.r_avg = r_last
        else:
            self.r_avg = self.grid.rate(ALPHA * self.r_avg + (1 - ALPHA) * r_last)

    def _precedence(self) -> None:
        ratio, goal = self.grid.ratio, self.goal
        assert self.r_avg is not None
        if goal.timed:
            g = granularity(self.r_desired, self.r_avg, self.grid.granularity)
            g = ratio(g)
            self.u = min(self.u + g, U_MAX) if self.r_desired > self.r_avg else max(self.u - g, U_MIN)
        else:
            self.u = Fraction(1)
        p = ratio(goal.phi * ratio(goal.importance) + (1 - goal.phi) * self.u)
        self.p = max(self.grid.precedence_min, min(p, P_MAX))

    def _quench(self, profit: Fraction) -> Fraction:
        if not self.increased:
            self.theta = 0
            return Fraction(0)
        if profit > 0:
            return Fraction(0)
        self.theta += 1
        if self.theta < THETA_MAX:
            return Fraction(0)
        self.theta = 0
        return 1 - self.p / P_MAX


ONE = 2**16
U64 = 2**64 - 1
PRODUCT_FITS = 2**47
"""g is exact for smaller distances between rates, otherwise within one unit."""


def q16(units: int) -> Fraction:
    return Fraction(units, ONE)


TOP = 64 * ONE
"""U_max and P_max."""
THETA = THETA_MAX

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
