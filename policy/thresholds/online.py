# SPDX-License-Identifier: Apache-2.0
"""The demotion thresholds with the least mean slowdown for the flows that a port has measured.

The model: flows arrive at random (Poisson) at a link with L levels. Level l serves a flow from its byte a to its byte
b, which are the thresholds around the level. The flows of a level share its service equally (processor sharing), and
only while every higher level is empty. R(x) is the load of all flows' first x bytes. Times are in bytes of the link.

    W(a) = integral from 0 to a of x dR(x) / (1 - R(a))        mean work that waits above a
    A(a) = (W(a) + a) / (1 - R(a))                             mean time until a flow has sent a bytes, and drops
    T(x) = A(a) + (x - a + 2 A(a) (R(x) - R(a))) / (1 - R(b))  mean time of a flow of x bytes, a < x <= b
    cost = E[ T(S) / (S + floor) ]                             mean slowdown

A(a) is exact, and so is T at the first level (Kleinrock, Queueing Systems, vol. 2, section 4.7: multilevel processor
sharing). Flows drop into a lower level in batches, at the end of a busy period of the levels above. On average,
2 A(a) lambda P(S > a) other flows drop with a flow and share its service. (This project derives that number from the
generating function of the busy period.) For the rest, the model assumes ordinary processor sharing. That is an
approximation: it is within 10 % of an event simulation, and exact for infinitely many levels (foreground-background).
The floor is ten packets, because a flow within the first window takes one round trip for any size. No threshold is
below `least_bytes`: the model has no round trips, and a flow should not leave the first level within its first one.
None is above `most_bytes`, by which a policy lets large flows share the last level with smaller ones.

The cost is a sum over levels, and each term depends only on the level's two thresholds. So dynamic programming finds
the exact optimum among the 40 edges in L * 40 * 40 steps, for all ports at once.

From the literature: the queueing model (Kleinrock), and the adaptation of each port in a sliding window (Gutiérrez et
al., DYNA 2018). Bai et al., NSDI 2015, section 4.2, minimise a simpler model offline for a known distribution.
New here: sizes and loads from tag counters (policy/thresholds/port_traffic.py), this cost, and the exact search. The
load of deadline flows that a port serves before a level is new, too. A port changes its thresholds only if that gains
at least MIN_GAIN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.port_traffic import BUCKETS, EDGES, Floats, FlowSizes

EdgeIndices = npt.NDArray[np.int64]
"""Thresholds as indices of the edges, shape (P, L - 1). Each row never decreases."""

MIN_GAIN = 0.03
"""Thresholds move only if the mean slowdown falls by at least this part."""
FLOOR_BYTES = 14_480.0
"""The initial window of RFC 6928: ten packets of 1448 bytes."""
MAX_LOAD = 0.95
"""The model scales a higher load down to this one, because times are infinite at load 1."""
MIN_LEFT = 0.02
"""The model assumes that a level has at least this part of the link."""

_POINTS: Floats = np.concatenate([[0.0], EDGES])
"""Bytes at which a level can begin or end. Index 0 is the begin of the flow; all others are edges."""
_ORDER_COST: Floats = np.where(np.tri(len(_POINTS), dtype=bool).T & (_POINTS[:, None] > 0), 0.0, np.inf)
"""0 for pairs of points (begin, end) that a lower level can have, infinity for all others."""


@dataclass(frozen=True)
class DelayModel:
    """The terms of the cost of P ports: sums up to each of the 41 points, and the load of other traffic."""

    load: Floats
    """R, shape (P, 41)."""
    area: Floats
    """Integral of x dR, shape (P, 41)."""
    weight: Floats
    """Sum of p / (size + floor) over the sizes up to the point, p being the share of flows; shape (P, 41)."""
    weighted_bytes: Floats
    """The same sum with each term times the size, shape (P, 41)."""
    weighted_load: Floats
    """The same sum with each term times R(size), shape (P, 41)."""
    above: Floats
    """Load of other traffic that the port serves before each level, shape (P, L)."""
    least_bytes: int = 0
    """No threshold is below this."""
    most_bytes: float = np.inf
    """No threshold is above this, unless no edge is between both limits."""

    @property
    def first_ends(self) -> Floats:
        """0 for the points at which the first level may end, infinity for all others, shape (41,)."""
        allowed = np.minimum(self.least_bytes, EDGES[-1]) <= _POINTS
        return np.where(allowed, 0.0, np.inf)

    @property
    def ends(self) -> Floats:
        """0 for the points that may be thresholds by `most_bytes`, infinity for all others, shape (41,)."""
        least = EDGES[np.isfinite(self.first_ends[1:])][0]
        allowed = np.maximum(self.most_bytes, least) >= _POINTS
        return np.where(allowed, 0.0, np.inf)


def delay_model(
    sizes: FlowSizes,
    load_up_to_edge: Floats,
    above: Floats,
    least_bytes: int = 0,
    most_bytes: float = np.inf,
) -> DelayModel:
    """The model for measured sizes and loads (policy/thresholds/port_traffic.py).

    `load_up_to_edge`: shape (P, 40). `above`: load served before each level, shape (P, L). `least_bytes` and
    `most_bytes`: of a threshold.
    """
    load = np.maximum.accumulate(load_up_to_edge, axis=1)
    total = load[:, -1:]  # a port's loads are scaled down if it exceeds MAX_LOAD
    load = np.asarray(np.where(total > MAX_LOAD, load * MAX_LOAD / np.maximum(total, 1e-9), load))
    middle = (_POINTS[1:] + _POINTS[:-1]) / 2
    area = np.cumsum(np.diff(load, axis=1, prepend=0.0) * middle, axis=1)
    # R at one size in each bucket, interpolated linearly between the bucket's edges.
    part = (sizes.size_bytes - _POINTS[:-1]) / np.diff(_POINTS)
    load_at_size = load - (1 - part) * np.diff(load, axis=1, prepend=0.0)
    share = sizes.ends / np.maximum(sizes.flows, 1e-9)[:, None]
    weight = share / (sizes.size_bytes + FLOOR_BYTES)
    return DelayModel(
        load=_from_zero(load),
        area=_from_zero(area),
        weight=_from_zero(np.cumsum(weight, axis=1)),
        weighted_bytes=_from_zero(np.cumsum(weight * sizes.size_bytes, axis=1)),
        weighted_load=_from_zero(np.cumsum(weight * load_at_size, axis=1)),
        above=above,
        least_bytes=least_bytes,
        most_bytes=most_bytes,
    )


def threshold_limits(policy: Policy) -> tuple[int, float]:
    """The least and the greatest threshold in bytes that a port may compute."""
    return policy.least_threshold or 0, policy.most_threshold or np.inf


def _from_zero(sums: Floats) -> Floats:
    """The sums with a column of zeros in front, for the point 0."""
    padded = np.zeros((len(sums), sums.shape[1] + 1))
    padded[:, 1:] = sums
    return padded


def _factors(model: DelayModel, level: int) -> tuple[Floats, Floats]:
    """The cost of a level from a to b as a sum of six products of a factor of a and a factor of b.

    Both arrays have shape (P, 41, 6).
    """
    left = np.maximum(1 - model.load - model.above[:, level, None], MIN_LEFT)
    reached = (model.area / left + _POINTS) / left
    twice, ones = 2 * reached, np.ones_like(reached)
    before = (
        model.weight * (_POINTS + twice * model.load) - model.weighted_bytes - twice * model.weighted_load
    )
    of_a = (reached, -reached * model.weight, ones, before, -_POINTS - twice * model.load, twice)
    ends = (model.weighted_bytes, ones, model.weight, model.weighted_load)
    of_b = (model.weight, ones, *(end / left for end in ends))
    return np.stack(of_a, axis=2), np.stack(of_b, axis=2)


@dataclass(frozen=True)
class DelayTerms:
    """A model and its terms for a number of levels, computed once for many searches."""

    model: DelayModel
    factors: list[tuple[Floats, Floats]]
    """`_factors` of each level."""

    def best(self, edges: Sequence[int] | None = None) -> tuple[EdgeIndices, Floats]:
        """The thresholds with the least cost, and that cost, shape (P,).

        They are among some edges (indices), by default among all. An empty level ends at the last edge. Dynamic
        programming over levels: `best` is the least cost of the levels so far, by their last point.
        """
        some = slice(None) if edges is None else np.unique([*(edge + 1 for edge in edges), BUCKETS])
        points = np.arange(len(_POINTS))[some]
        ends, order_cost = self.model.ends[some], _ORDER_COST[some][:, some]
        (of_a, of_b), *lower = self.factors
        best = np.einsum("pi,pbi->pb", of_a[:, 0], of_b[:, some]) + self.model.first_ends[some]
        came_from = []
        for of_a, of_b in lower:
            through = np.matmul(of_a[:, some], of_b[:, some].swapaxes(1, 2))
            through += (best + ends)[:, :, None]
            through += order_cost
            came_from.append(through.argmin(axis=1))
            best = np.take_along_axis(through, came_from[-1][:, None, :], axis=1)[:, 0]
        return points[_trace(came_from, *best.shape)] - 1, best[:, -1]

    def cost(self, thresholds: EdgeIndices) -> Floats:
        """Mean slowdown with these thresholds, shape (P,)."""
        ports = np.arange(len(thresholds))
        points = np.zeros((len(ports), thresholds.shape[1] + 2), np.int64)
        points[:, 1:-1], points[:, -1] = thresholds + 1, BUCKETS
        cost: Floats = self.model.first_ends[points[:, 1]] + self.model.ends[points[:, 1:-1]].sum(axis=1)
        for level, (of_a, of_b) in enumerate(self.factors):
            cost += np.sum(of_a[ports, points[:, level]] * of_b[ports, points[:, level + 1]], axis=1)
        return cost


def delay_terms(model: DelayModel, levels: int) -> DelayTerms:
    """The terms of a model for this number of levels."""
    return DelayTerms(model, [_factors(model, level) for level in range(levels)])


def _trace(came_from: list[npt.NDArray[np.int64]], ports: int, points: int) -> npt.NDArray[np.int64]:
    """The places of the best path's points, followed back from the last one."""
    at = np.full(ports, points - 1)
    chosen = np.zeros((ports, len(came_from)), np.int64)
    for level, choice in reversed(list(enumerate(came_from))):
        at = choice[np.arange(ports), at]
        chosen[:, level] = at
    return chosen


def worthwhile_thresholds(model: DelayModel, in_force: EdgeIndices) -> EdgeIndices:
    """The best thresholds of each port if they gain at least MIN_GAIN; otherwise the thresholds in force."""
    terms = delay_terms(model, in_force.shape[1] + 1)
    best, cost = terms.best()
    gains = cost < (1 - MIN_GAIN) * terms.cost(in_force)
    return np.where(gains[:, None], best, in_force)
