# SPDX-License-Identifier: Apache-2.0
"""Demotion thresholds for a known distribution of flow sizes and a known load: PIAS's optimum, and
this project's.

PIAS (Bai et al., "Information-Agnostic Flow Scheduling for Commodity Data Centers", NSDI 2015,
section 4.2) has queues 1 to K with thresholds alpha_1 ... alpha_{K-1}. A flow of a size between
thresholds l-1 and l waits in the queues 1 ... l. Of all flows

    theta_l = F(alpha_l) - F(alpha_{l-1})          end in queue l
    T_l     = 1 / (1 - (rho_1 + ... + rho_l))      mean time in queue l, in packet times: an M/M/1 queue that has
                                                   the capacity that the queues above it leave
    T       = sum over l of theta_l (T_1 + ... + T_l)  =  sum over l of T_l (theta_l + ... + theta_K)

T must be minimal, and it is a sum of ratios. The load of the first queues follows from the
distribution: rho_1 + ... + rho_l = rho E[min(S, alpha_l)] / E[S]. Then each term depends only on
two neighbouring thresholds. So dynamic programming finds the global minimum over a fine grid of
sizes, which has every step of the distribution. Between its sizes T is less than a thousandth lower.

In this model a flow costs a packet's time for every queue that it enters, for any time that it
stays there. So few queues are worth it: the other thresholds get the size of the largest flow, and
their queues stay empty. The lists that PIAS's authors published use all queues. This project's
thresholds for a known distribution are those with the least mean slowdown
(policy/thresholds/online.py). By that measure the published ones are good, too.

The traffic of a running network, as its flow records show it, is such a distribution and load (`Traffic`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.errors import FieldError, shortened
from sluice.policy.figures.metrics import wire_bytes
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.field_kinds import MAX_THRESHOLD_BYTES
from sluice.policy.schema.fields import demotions_of
from sluice.policy.schemes.ports import REFERENCE_MARK_BYTES
from sluice.policy.thresholds.online import DelayModel, delay_model, delay_terms, threshold_limits
from sluice.policy.thresholds.port_traffic import EDGES, TYPICAL_BYTES, Floats, FlowSizes
from sluice.policy.units import BITS_PER_BYTE, MIN_FLOW_BYTES
from sluice.policy.workload.sizes import SizeCdf, Sizes, scaled_bytes

GRID_POINTS = 600
SAMPLES = 2048
"""Number of sizes that represent a piece of a distribution."""


class _FlowSizes:
    """A distribution of flow sizes as many sizes with their shares. Each piece has SAMPLES sizes."""

    def __init__(self, sizes: Sizes, scale: float) -> None:
        bounds, _ = sizes.pieces()
        widths = np.diff(bounds)
        uniform = bounds[:-1, None] + widths[:, None] * (np.arange(SAMPLES) + 0.5) / SAMPLES
        drawn = scaled_bytes(sizes.at(uniform.ravel())[0], scale).astype(float)
        order = np.argsort(drawn, kind="stable")
        share = np.repeat(widths / SAMPLES, SAMPLES)[order]
        self._sorted = drawn[order]
        self._ended = np.concatenate([[0.0], np.cumsum(share)])
        self._bytes = np.concatenate([[0.0], np.cumsum(share * self._sorted)])
        self.ends = np.unique(drawn.reshape(uniform.shape)[:, [0, -1]])
        """First and last size of each piece. All steps of the distribution are among them."""

    @property
    def mean(self) -> float:
        return float(self._bytes[-1])

    def larger(self, than_bytes: Floats) -> Floats:
        """Return 1 - F(a)."""
        return np.asarray(1 - self._ended[np.searchsorted(self._sorted, than_bytes, side="right")])

    def up_to(self, than_bytes: Floats) -> Floats:
        """Return E[min(S, a)]."""
        ended = np.searchsorted(self._sorted, than_bytes, side="right")
        return np.asarray(self._bytes[ended] + than_bytes * (1 - self._ended[ended]))


def pias_thresholds(sizes: Sizes, load: float, queues: int, scale: float = 1.0) -> tuple[int, ...]:
    """Return the queues - 1 thresholds in bytes, increasing, that minimise T. `load` is between 0 and 1."""
    _check(load)
    if queues < 2:
        return ()
    flows = _FlowSizes(sizes, scale)
    # Sizes at equal distances on a logarithmic scale, and every step of the distribution.
    between = np.geomspace(flows.ends[0], flows.ends[-1], GRID_POINTS)
    grid = np.unique(np.concatenate([between, flows.ends]))
    return _whole(grid[_best_on_grid(flows, load, queues, grid)])


def optimal_thresholds(
    sizes: Sizes,
    load: float,
    levels: int,
    scale: float = 1.0,
    least_bytes: int = 0,
    most_bytes: float = np.inf,
) -> tuple[int, ...]:
    """Return the levels - 1 thresholds in bytes, increasing, with the least mean slowdown.

    They are edges, none is below `least_bytes`, and none above `most_bytes`. If a level should stay empty, its
    thresholds are a byte apart and so become the same edge.
    """
    _check(load)
    if levels < 2:
        return ()
    best, _ = delay_terms(known_delays(sizes, load, levels, scale, least_bytes, most_bytes), levels).best()
    return _whole(EDGES[best[0]])


def unscheduled_cutoffs(
    sizes_bytes: npt.ArrayLike, sent_unasked_bytes: int, levels: int, unscheduled: int = 0
) -> tuple[int, ...]:
    """Return the largest message of each of Homa's unscheduled levels but the last, in bytes.

    Their share of the levels is that of the bytes that leave without a grant. It is one level at least, and leaves one.
    Each of them has as many bytes (Montazeri et al., SIGCOMM 2018, section 3.4). `unscheduled`: so many instead.
    """
    sizes = np.sort(np.asarray(sizes_bytes, np.float64))
    unasked = np.minimum(sizes, sent_unasked_bytes)
    share = unasked.sum() / sizes.sum()
    number = unscheduled or max(1, min(round(levels * share), levels - 1))
    below = np.cumsum(unasked) / unasked.sum()
    places = np.searchsorted(below, np.arange(1, number) / number)
    return tuple(int(sizes[place]) for place in places)


SOLVERS: Mapping[str, Callable[..., tuple[int, ...]]] = {
    "optimal": optimal_thresholds,
    "pias": lambda sizes, load, queues, scale, *_limits: pias_thresholds(sizes, load, queues, scale),
}
"""Words that a document may give as `thresholds` instead of a list, if sizes and load are known."""


@dataclass(frozen=True)
class Traffic:
    """The traffic for which thresholds are computed."""

    sizes: Sizes
    load: float
    """Between 0 and 1."""
    scale: float = 1.0
    """Factor of all sizes."""
    name: str = "the workload"
    """Whose traffic this is, for people."""

    def model(self, policy: Policy) -> DelayModel:
        """Return the delay model of a port with this traffic under the policy."""
        levels = len(policy.thresholds) + 1
        return known_delays(self.sizes, self.load, levels, self.scale, *threshold_limits(policy))


def solved(
    document: Mapping[str, Any],
    traffic: Traffic | None,
    network_mark_bytes: int = REFERENCE_MARK_BYTES,
    lacking: str = "a workload with a distribution of sizes and a load",
) -> dict[str, Any]:
    """Return a policy's document in which a list replaces thresholds = "optimal" or "pias".

    Raises FieldError, also for a word without traffic; then the message names what is `lacking`. Other documents come
    back unchanged.
    """
    word = document.get("thresholds")
    if not isinstance(word, str):
        return dict(document)
    if word not in SOLVERS:
        raise FieldError(
            "thresholds", f"{shortened(word)} is neither a list nor one of {', '.join(map(str, SOLVERS))}"
        )
    if traffic is None:
        raise FieldError("thresholds", f"{word!r} needs {lacking}")
    levels = demotions_of(document) + 1
    anything = {**document, "thresholds": list(range(1, levels))}
    limits = threshold_limits(Policy.from_document(anything, network_mark_bytes))
    thresholds_bytes = SOLVERS[word](traffic.sizes, traffic.load, levels, traffic.scale, *limits)
    return {**document, "thresholds": list(thresholds_bytes)}


def known_delays(
    sizes: Sizes,
    load: float,
    levels: int,
    scale: float = 1.0,
    least_bytes: int = 0,
    most_bytes: float = np.inf,
) -> DelayModel:
    """Return the delay model of one port with this traffic, as if it had been measured without error."""
    flows = _FlowSizes(sizes, scale)
    ended = 1 - flows.larger(EDGES)
    up_to = flows.up_to(EDGES)
    ended[-1], up_to[-1] = 1.0, flows.mean  # the last bucket has no upper end
    ends = np.diff(ended, prepend=0.0)[None]
    return delay_model(
        FlowSizes(ends, TYPICAL_BYTES[None]),
        load * up_to[None] / flows.mean,
        np.zeros((1, levels)),
        least_bytes,
        most_bytes,
    )


def _check(load: float) -> None:
    if not 0 < load < 1:
        raise FieldError("load", f"thresholds are optimal for a load between 0 and 1, not {load:g}")


def _best_on_grid(flows: _FlowSizes, load: float, queues: int, grid: Floats) -> list[int]:
    """Return the indices of the best thresholds: queue by queue, the least sum for each end of the queue."""
    times = 1 / (1 - load * flows.up_to(grid) / flows.mean)
    entered = flows.larger(grid)
    term = np.where(np.tri(len(grid), dtype=bool).T, entered[:, None] * times[None, :], np.inf)
    best, came_from = times, []
    for _ in range(queues - 2):
        through = best[:, None] + term
        came_from.append(through.argmin(axis=0))
        best = through.min(axis=0)
    at = int((best + entered / (1 - load)).argmin())
    chosen = [at]
    for choice in reversed(came_from):
        at = int(choice[at])
        chosen.append(at)
    return chosen[::-1]


def _whole(thresholds: Floats) -> tuple[int, ...]:
    """Return whole bytes, each above the one before, and none above a policy's maximum."""
    rising: list[int] = []
    for size in np.ceil(thresholds):
        rising.append(max(int(size), rising[-1] + 1 if rising else 1))
    most = range(MAX_THRESHOLD_BYTES - len(rising) + 1, MAX_THRESHOLD_BYTES + 1)
    return tuple(min(size, limit) for size, limit in zip(rising, most, strict=True))


LEAST_FLOWS = 200
"""Fewer flows say too little about the sizes. Of 200, two are above the 99th percentile."""
LEAST_S = 5.0
"""A shorter time says too little about the load."""
QUANTILES = 100
LOADS = (0.05, 0.95)
"""The loads for which thresholds are computed. A measured load outside counts as the nearest of both."""


@dataclass(frozen=True)
class MeasuredFlows:
    """Flows as columns of one length."""

    size_bytes: Floats
    dst: Sequence[str]
    """Names of the receiving hosts."""
    began_s: Floats
    ended_s: Floats


def measured_traffic(flows: MeasuredFlows, rates_bps: Mapping[str, int]) -> Traffic | None:
    """Return the traffic of these flows, or None if they are too few. `rates_bps`: rate of each host's link.

    The load is that of the link of a typical byte: the mean of the receivers' loads, weighted by their bytes.
    """
    count = len(flows.size_bytes)
    if count < LEAST_FLOWS:
        return None
    lasted_s = float(flows.ended_s.max() - flows.began_s.min())
    if lasted_s < LEAST_S:
        return None
    load = _typical_load(flows, rates_bps, lasted_s)
    if load is None:
        return None
    shares = np.linspace(0, 1, QUANTILES + 1)
    sizes = np.quantile(np.maximum(flows.size_bytes, MIN_FLOW_BYTES), shares)
    name = f"{count:,} flows of the last {lasted_s:.0f} s, load {load:.2f}"
    return Traffic(SizeCdf("measured", tuple(sizes.tolist()), tuple(shares.tolist())), load, name=name)


def _typical_load(flows: MeasuredFlows, rates_bps: Mapping[str, int], lasted_s: float) -> float | None:
    """Return None if no receiver's rate is known."""
    received: dict[str, float] = {}
    for dst, frames in zip(flows.dst, wire_bytes(flows.size_bytes).tolist(), strict=True):
        if rates_bps.get(dst):
            received[dst] = received.get(dst, 0.0) + frames
    total = sum(received.values())
    if not total:
        return None
    load = sum(
        count / total * count * BITS_PER_BYTE / rates_bps[dst] / lasted_s for dst, count in received.items()
    )
    return min(max(load, LOADS[0]), LOADS[1])
