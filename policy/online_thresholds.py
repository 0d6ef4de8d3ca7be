# SPDX-License-Identifier: Apache-2.0
"""The demotion thresholds under which the flows that a port has seen would be slowed down least.

Flows come at random (Poisson) to a link with L levels. A flow is served at level l between its bytes a and b, the
thresholds around the level, in equal parts with the others there (processor sharing), and only while no higher level
has anything. With R(x) the load of all flows' first x bytes, and times in bytes of the link:

    W(a) = integral from 0 to a of x dR(x) / (1 - R(a))        mean work that waits above a
    A(a) = (W(a) + a) / (1 - R(a))                             mean time until a flow has sent a bytes, and drops
    T(x) = A(a) + (x - a + 2 A(a) (R(x) - R(a))) / (1 - R(b))  mean time of a flow of x bytes, a < x <= b
    cost = E[ T(S) / (S + floor) ]                             mean slowdown

A(a) is exact, as is T at the first level (Kleinrock, Queueing Systems, vol. 2, section 4.7: multilevel processor
sharing). Flows drop into a lower level in batches, at the end of a busy period of the levels above; with a flow come
2 A(a) lambda P(S > a) others in the mean (ours: from the generating function of the busy period), and they share its
service. Taking the rest for ordinary processor sharing is an approximation: within 10 % of an event simulation, and
exact again with infinitely many levels (foreground-background). A flow within the first window takes a round trip
whatever its size: hence the floor, ten packets.

The cost is a sum over levels, and each term depends on the level's two thresholds alone. So the best thresholds among
the 40 edges are found exactly, by dynamic programming in L * 40 * 40 steps, for all ports at once.

Taken: the queueing model (Kleinrock; Bai et al., NSDI 2015, section 4.2, minimise a simpler one offline, for a known
distribution); adaptation of each port in a sliding window (Gutiérrez et al., DYNA 2018). Ours: sizes and loads from tag
counters (policy/port_traffic.py), this cost, the load of deadline flows that go before a level, the exact search, and a
change only where it gains at least MIN_GAIN by the same counters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policy.port_traffic import BUCKETS, EDGES, Floats, FlowSizes

Choice = npt.NDArray[np.int64]
"""Thresholds as indices of the edges, shape (P, L - 1); they never fall."""

MIN_GAIN = 0.03
"""Thresholds move when the mean slowdown falls by this part at least."""
FLOOR_BYTES = 14_480.0
"""The initial window of RFC 6928: ten packets of 1448 bytes."""
MAX_LOAD = 0.95
"""A port that is busier is taken for this busy: beyond, the model knows only infinity."""
MIN_LEFT = 0.02
"""The least part of the link that a level is taken to have."""

_AT: Floats = np.concatenate([[0.0], EDGES])
"""Where a level can begin and end; index 0 is no edge but the begin of the flow."""
_ALLOWED: Floats = np.where(np.tri(len(_AT), dtype=bool).T & (_AT[:, None] > 0), 0.0, np.inf)
"""0 for the pairs of points between which a lower level can lie, else infinity."""


@dataclass(frozen=True)
class DelayModel:
    """Of P ports, what the cost is made of: sums up to each of the 41 points of `_AT`, and the other traffic's load."""

    load: Floats
    """R, shape (P, 41)."""
    area: Floats
    """Integral of x dR, shape (P, 41)."""
    weight: Floats
    """Flows that end there, each over its size and the floor, as parts of the flows; shape (P, 41)."""
    weighted_bytes: Floats
    """The same, times the size."""
    weighted_load: Floats
    """The same as `weight`, times R at the size."""
    above: Floats
    """Load of other traffic that goes before each level, shape (P, L)."""


def delay_model(sizes: FlowSizes, load_up_to_edge: Floats, above: Floats) -> DelayModel:
    """From measured sizes and loads (policy/port_traffic.py); `above` has a column for each level."""
    load = _no_busier_than(MAX_LOAD, np.maximum.accumulate(load_up_to_edge, axis=1))
    middle = (_AT[1:] + _AT[:-1]) / 2
    area = np.cumsum(np.diff(load, axis=1, prepend=0.0) * middle, axis=1)
    share = sizes.ends / np.maximum(sizes.flows, 1e-9)[:, None]
    weight = share / (sizes.size_bytes + FLOOR_BYTES)
    return DelayModel(
        load=_from_zero(load),
        area=_from_zero(area),
        weight=_from_zero(np.cumsum(weight, axis=1)),
        weighted_bytes=_from_zero(np.cumsum(weight * sizes.size_bytes, axis=1)),
        weighted_load=_from_zero(np.cumsum(weight * _load_at(sizes.size_bytes, load), axis=1)),
        above=above,
    )


def _no_busier_than(most: float, load: Floats) -> Floats:
    total = load[:, -1:]
    return np.asarray(np.where(total > most, load * most / np.maximum(total, 1e-9), load))


def _load_at(size_bytes: Floats, load: Floats) -> Floats:
    """R at a size in each bucket, on a line between the bucket's edges."""
    part = (size_bytes - _AT[:-1]) / np.diff(_AT)
    return np.asarray(load - (1 - part) * np.diff(load, axis=1, prepend=0.0))


def _from_zero(sums: Floats) -> Floats:
    padded = np.zeros((len(sums), sums.shape[1] + 1))
    padded[:, 1:] = sums
    return padded


def _factors(model: DelayModel, level: int) -> tuple[Floats, Floats]:
    """The cost of a level from a to b as a sum of products, one factor of a and one of b: shape (P, 41, 6) each."""
    left = np.maximum(1 - model.load - model.above[:, level, None], MIN_LEFT)
    reached = (model.area / left + _AT) / left
    twice, ones = 2 * reached, np.ones_like(reached)
    before = model.weight * (_AT + twice * model.load) - model.weighted_bytes - twice * model.weighted_load
    of_a = (reached, -reached * model.weight, ones, before, -_AT - twice * model.load, twice)
    ends = (model.weighted_bytes, ones, model.weight, model.weighted_load)
    of_b = (model.weight, ones, *(end / left for end in ends))
    return np.stack(of_a, axis=2), np.stack(of_b, axis=2)


_Factors = list[tuple[Floats, Floats]]
"""Of each level."""


def _all_factors(model: DelayModel, levels: int) -> _Factors:
    return [_factors(model, level) for level in range(levels)]


def best_thresholds(model: DelayModel, levels: int) -> tuple[Choice, Floats]:
    """The thresholds of least cost, and that cost, shape (P,)."""
    return _best(_all_factors(model, levels))


def _best(factors: _Factors) -> tuple[Choice, Floats]:
    (of_a, of_b), *lower = factors
    best = np.einsum("pi,pbi->pb", of_a[:, 0], of_b)
    came_from = []
    for of_a, of_b in lower:
        through = np.matmul(of_a, of_b.swapaxes(1, 2))
        through += best[:, :, None]
        through += _ALLOWED
        came_from.append(through.argmin(axis=1))
        best = np.take_along_axis(through, came_from[-1][:, None, :], axis=1)[:, 0]
    return _trace(came_from), best[:, -1]


def _trace(came_from: list[npt.NDArray[np.int64]]) -> Choice:
    """Back from the last point through the points that were chosen."""
    if not came_from:
        return np.zeros((0, 0), np.int64)
    ports = np.arange(len(came_from[0]))
    at = np.full(len(ports), BUCKETS)
    chosen = []
    for choice in reversed(came_from):
        at = choice[ports, at]
        chosen.append(at - 1)
    return np.stack(chosen[::-1], axis=1)


def cost_of(model: DelayModel, thresholds: Choice) -> Floats:
    """Mean slowdown under these thresholds, shape (P,)."""
    return _cost(_all_factors(model, thresholds.shape[1] + 1), thresholds)


def _cost(factors: _Factors, thresholds: Choice) -> Floats:
    ports = np.arange(len(thresholds))
    points = np.zeros((len(ports), thresholds.shape[1] + 2), np.int64)
    points[:, 1:-1], points[:, -1] = thresholds + 1, BUCKETS
    cost = np.zeros(len(ports))
    for level, (of_a, of_b) in enumerate(factors):
        cost += np.sum(of_a[ports, points[:, level]] * of_b[ports, points[:, level + 1]], axis=1)
    return cost


def worthwhile_thresholds(model: DelayModel, in_force: Choice) -> Choice:
    """The best ones where they gain MIN_GAIN over those in force; elsewhere those."""
    factors = _all_factors(model, in_force.shape[1] + 1)
    best, cost = _best(factors)
    gains = cost < (1 - MIN_GAIN) * _cost(factors, in_force)
    return np.where(gains[:, None], best, in_force)
