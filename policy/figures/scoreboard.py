# SPDX-License-Identifier: Apache-2.0
"""The scoreboard: the figures of each version of the policy, with confidence, and whether a version is better.

A flow counts for a version only if it lived wholly under it: it began after switches and hosts had applied the version,
and it ended before the next one was requested. A flow that is still active at a change counts for no version.

Confidence intervals are from a block bootstrap. Flows that run at the same time share queues, so their times depend
on each other. The flows of a version are cut into up to BLOCKS blocks of neighbouring starts, and whole blocks are
drawn with replacement (Kuensch, "The jackknife and the bootstrap for general stationary observations", Annals of
Statistics 1989, with blocks that do not overlap). The generator has a fixed seed, so equal flows give equal answers.

A figure is better or worse than that of another version if the interval of the difference leaves out 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.figures.metrics import cdf
from sluice.policy.wire.records import SIZE_CLASSES

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

BLOCKS = 100
REPLICATES = 400
SEED = 1
CONFIDENCE_PERCENT = 95
SETTLE_S = 2.0
"""Hosts follow a version within two heartbeats of a second after the switches."""
LEAST_FLOWS = 30
"""With fewer flows in one of two versions, no figure is better or worse."""
LEAST_FOR_P99 = 300
"""The same for the 99th percentile: three flows are above that of 300."""
CDF_POINTS = 60
CLASSES = (*SIZE_CLASSES, "all")
BETTER, WORSE, NOT_SURE = "better", "worse", "not sure"


@dataclass(frozen=True)
class Period:
    """The time in which a version of the policy was in force everywhere, in seconds of the Unix epoch."""

    version: int
    scheme: str
    since_s: float
    until_s: float
    """Infinite for the version in force."""


@dataclass(frozen=True)
class Applied:
    """A version of the policy and its times, in seconds of the Unix epoch."""

    version: int
    scheme: str
    created_s: float
    applied_s: float | None
    """None: it was never in force everywhere."""


def periods(versions: Sequence[Applied], settle_s: float = SETTLE_S) -> list[Period]:
    """Return the periods of the versions that were applied. `versions` are in the order of their numbers."""
    ends = [later.created_s for later in versions[1:]] + [math.inf]
    applied = [
        Period(version.version, version.scheme, version.applied_s + settle_s, end)
        for version, end in zip(versions, ends, strict=False)
        if version.applied_s is not None
    ]
    return [period for period in applied if period.since_s < period.until_s]


@dataclass(frozen=True)
class ScoredFlows:
    """Flows as columns of one length."""

    began_s: Floats
    ended_s: Floats
    """An unfinished flow ends when its sender gives up."""
    fct_us: Floats
    """NaN for an unfinished flow."""
    slowdown: Floats
    """NaN for an unfinished flow, and if the ideal FCT is unknown."""
    size_class: npt.NDArray[np.uint8]
    """Index in SIZE_CLASSES."""
    has_deadline: Mask
    missed: Mask
    retransmissions: Floats
    scheme: npt.NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.began_s)

    def where(self, chosen: npt.NDArray[Any]) -> ScoredFlows:
        """Return the flows that a mask or a list of indices selects."""
        return ScoredFlows(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def under(self, period: Period) -> Mask:
        """Return true for the flows that lived wholly under a version."""
        inside = (self.began_s >= period.since_s) & (self.ended_s <= period.until_s)
        return inside & np.equal(self.scheme, period.scheme)


@dataclass(frozen=True)
class Estimate:
    """A figure and its replicates."""

    value: float
    replicates: Floats
    """NaN where a replicate has no flow."""
    flows: int
    least_flows: int = LEAST_FLOWS

    def document(self) -> dict[str, float | None]:
        low, high = _interval(self.replicates)
        return {"value": _number(self.value), "low": low, "high": high}

    def against(self, other: Estimate) -> dict[str, Any]:
        """Return the ratio to another version's figure, and whether this one is better. Smaller figures are better."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = self.replicates / other.replicates
            ratio = np.float64(self.value) / other.value
        low, high = _interval(ratios)
        least, most = _interval(self.replicates - other.replicates)
        has_enough_flows = min(self.flows, other.flows) >= max(self.least_flows, other.least_flows)
        if not has_enough_flows or least is None or most is None or least <= 0 <= most:
            verdict = NOT_SURE
        else:
            verdict = BETTER if most < 0 else WORSE
        return {"ratio": _number(float(ratio)), "low": low, "high": high, "verdict": verdict}


def _interval(replicates: Floats) -> tuple[float | None, float | None]:
    finite = replicates[np.isfinite(replicates)]
    if not len(finite):
        return None, None
    tail = (100 - CONFIDENCE_PERCENT) / 2
    low, high = np.percentile(finite, [tail, 100 - tail])
    return float(low), float(high)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Score:
    """The figures of the flows that lived wholly under one version."""

    def __init__(self, period: Period, flows: ScoredFlows) -> None:
        """`flows` must have no flow of another version."""
        self.period = period
        self.flows = flows.where(np.argsort(flows.began_s, kind="stable"))
        self.estimate = cache(self._estimate)
        """Returns a figure by its key: "small.mean_us", "all.p99_us", "large.slowdown", "miss_ratio" and so on."""

    def _estimate(self, key: str) -> Estimate:
        flows = self.flows
        if key == "miss_ratio":
            return _mean(flows.missed[flows.has_deadline].astype(float))
        if key == "retransmissions":
            return _mean(flows.retransmissions)
        name, _, figure = key.partition(".")
        inside = self._in_class(name)
        if figure == "p99_us":
            return _estimate(flows.fct_us[inside], _percentiles_99, LEAST_FOR_P99)
        return _mean((flows.slowdown if figure == "slowdown" else flows.fct_us)[inside])

    def _in_class(self, name: str) -> Mask:
        if name == "all":
            return np.ones(len(self.flows), bool)
        return np.equal(self.flows.size_class, SIZE_CLASSES.index(name))

    def document(self, against: Score | None = None) -> dict[str, Any]:
        """Return the figures, and how they compare with another version's."""
        flows, until_s = self.flows, self.period.until_s
        return {
            "version": self.period.version,
            "scheme": self.period.scheme,
            "since": self.period.since_s,
            "until": until_s if math.isfinite(until_s) else None,
            "flows": len(flows),
            "unfinished": int(np.isnan(flows.fct_us).sum()),
            "deadlines": int(flows.has_deadline.sum()),
            "missed": int((flows.has_deadline & flows.missed).sum()),
            "retransmissions": int(np.nansum(flows.retransmissions)),
            "classes": {name: self._class_document(name, against) for name in CLASSES},
            "miss_ratio": self._figure("miss_ratio", against),
            "retransmissions_per_flow": self._figure("retransmissions", against),
        }

    def _class_document(self, name: str, against: Score | None) -> dict[str, Any]:
        fct_us = self.flows.fct_us[self._in_class(name)]
        fct_us = fct_us[~np.isnan(fct_us)]
        values, shares = cdf(fct_us, CDF_POINTS) if len(fct_us) else (fct_us, fct_us)
        return {
            "n": len(fct_us),
            **{key: self._figure(f"{name}.{key}", against) for key in ("mean_us", "p99_us", "slowdown")},
            "cdf": {"us": np.round(values, 1).tolist(), "share": np.round(shares, 5).tolist()},
        }

    def _figure(self, key: str, against: Score | None) -> dict[str, Any]:
        mine = self.estimate(key)
        compared = mine.against(against.estimate(key)) if against is not None else None
        return {**mine.document(), "against": compared}


def scoreboard(scores: Sequence[Score], against: int | None) -> list[dict[str, Any]]:
    """Return the documents of all versions, each compared with that of version `against`, if it is there."""
    base = next((score for score in scores if score.period.version == against), None)
    return [score.document(None if score is base else base) for score in scores]


def scored(flows: ScoredFlows, in_force: Iterable[Period]) -> list[Score]:
    """Return the scores of the versions under which any flow lived wholly."""
    parts = ((period, flows.where(flows.under(period))) for period in in_force)
    return [Score(period, part) for period, part in parts if len(part)]


# ── Block bootstrap ─────────────────────────────────────────────────────────────────────────────


@cache
def _drawn(blocks: int) -> npt.NDArray[np.int64]:
    """Return how often each replicate has each block, shape (REPLICATES, blocks)."""
    rng = np.random.default_rng(SEED)
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=REPLICATES)


def _estimate(
    values: Floats, of: Callable[[Floats, npt.NDArray[np.int64]], tuple[float, Floats]], least_flows: int
) -> Estimate:
    """Return an estimate from the known values, which are in the order of the flows' starts."""
    numbers = values[~np.isnan(values)]
    count = len(numbers)
    if not count:
        return Estimate(math.nan, np.full(REPLICATES, math.nan), 0, least_flows)
    block_of_flow = np.arange(count) * min(count, BLOCKS) // count
    value, replicates = of(numbers, block_of_flow)
    return Estimate(value, replicates, count, least_flows)


def _mean(values: Floats) -> Estimate:
    return _estimate(values, _means, LEAST_FLOWS)


def _means(values: Floats, blocks: npt.NDArray[np.int64]) -> tuple[float, Floats]:
    sums, counts = np.bincount(blocks, values), np.bincount(blocks)
    drawn = _drawn(len(counts))
    return float(values.mean()), (drawn @ sums) / (drawn @ counts)


def _percentiles_99(values: Floats, blocks: npt.NDArray[np.int64]) -> tuple[float, Floats]:
    """Each replicate's percentile is the least value up to which it has 99 % of its flows."""
    order = np.argsort(values, kind="stable")
    ordered, of_block = values[order], blocks[order]
    drawn = _drawn(int(blocks[-1]) + 1)
    replicates = np.empty(REPLICATES)
    for row, times in enumerate(drawn):
        reached = np.cumsum(times[of_block])
        replicates[row] = ordered[np.searchsorted(reached, 0.99 * reached[-1])]
    return float(np.percentile(values, 99)), replicates
