# SPDX-License-Identifier: Apache-2.0
"""The scoreboard: the figures of each version of the policy, with confidence, and whether a version is better.

A flow counts for a version only if it lived wholly under it: it began after switches and hosts had applied the version,
and it ended before the next one was requested. A flow that is still active at a change counts for no version.

Confidence intervals are from a block bootstrap. Flows that run at the same time share queues, so their times depend
on each other. The flows of a version are cut into up to BLOCKS blocks of neighbouring starts, and whole blocks are
drawn with replacement (Kuensch, "The jackknife and the bootstrap for general stationary observations", Annals of
Statistics 1989, with blocks that do not overlap). The generator has a fixed seed, so equal flows give equal answers.

A figure is better or worse than that of another version if chance alone would hardly make such a difference. A
scoreboard has dozens of figures, so one in twenty would seem better or worse by chance. Holm's method (Scandinavian
Journal of Statistics 1979) has a level of 5 % for all of them together: the smallest p of m must be below 0.05 / m,
the next below 0.05 / (m - 1), and so on. The p of a difference is that of its bootstrap standard error, by Student's
distribution. In a short run, flows depend on each other over more than a block. Then chance exceeds these 5 %.

Versions with the same flows, as of a tour or of a report with the same seeds, are compared block by block: each
replicate draws the same blocks for all of them. Between other versions, a difference may be that of their flows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.figures.metrics import cdf
from sluice.policy.wire.records import SIZE_CLASSES

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

BLOCKS = 10
"""Flows of neighbouring blocks depend on each other, too, and the more so, the shorter the blocks are."""
_STRETCH = 1.22
"""Ten blocks say less about the spread than many would: sqrt(10/9), times Student's 2.26 with nine degrees of freedom
over the normal distribution's 1.96."""
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
CLASS_FIGURES = ("mean_us", "p99_us", "slowdown")
FIGURES = (*(f"{name}.{key}" for name in CLASSES for key in CLASS_FIGURES), "miss_ratio", "retransmissions")
SIGNIFICANCE = 1 - CONFIDENCE_PERCENT / 100
"""The level of all figures of a scoreboard together."""
POWER = 0.8
"""The probability with which a difference of the detectable size is found."""
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
        low, high = _interval(self.value, self.replicates)
        return {"value": _number(self.value), "low": low, "high": high}

    def against(self, other: Estimate) -> Comparison:
        """Compare with another version's figure."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = self.replicates / other.replicates
            ratio = np.float64(self.value) / other.value
        differences = self.replicates - other.replicates
        differences = differences[np.isfinite(differences)]
        has_enough_flows = min(self.flows, other.flows) >= max(self.least_flows, other.least_flows)
        error = math.nan
        if has_enough_flows and len(differences):
            error = float(differences.std()) * math.sqrt(BLOCKS / (BLOCKS - 1))
        return Comparison(
            self.value - other.value,
            error,
            other.value,
            _number(float(ratio)),
            *_interval(float(ratio), ratios),
        )


@dataclass(frozen=True)
class Comparison:
    """A figure against that of another version."""

    difference: float
    error: float
    """Standard error of the difference; NaN: there are too few flows."""
    other: float
    """The other version's figure."""
    ratio: float | None
    low: float | None
    """Lower end of the ratio's interval."""
    high: float | None

    @property
    def p(self) -> float:
        """The probability of so large a difference between equal versions; NaN with too few flows."""
        if math.isnan(self.error):
            return math.nan
        if not self.difference:
            return 1.0
        return math.erfc(_normal(abs(self.difference) / self.error) / math.sqrt(2)) if self.error else 0.0

    def document(self, is_sure: bool, figures: int) -> dict[str, Any]:
        """Return what the scoreboard says of it. Smaller figures are better. `figures`: how many are compared."""
        verdict = NOT_SURE if not is_sure else BETTER if self.difference < 0 else WORSE
        ends = {"ratio": self.ratio, "low": self.low, "high": self.high}
        return {**ends, "verdict": verdict, "detectable": self._detectable(figures)}

    def _detectable(self, figures: int) -> float | None:
        """Return the least change that would be found with the probability POWER, as a share of the other's figure."""
        if math.isnan(self.error) or not self.other:
            return None
        bar = _student(NormalDist().inv_cdf(1 - SIGNIFICANCE / 2 / figures)) + NormalDist().inv_cdf(POWER)
        return bar * self.error / abs(self.other)


_FREEDOM = BLOCKS - 1
_FACTOR = (8 * _FREEDOM + 1) / (8 * _FREEDOM + 3)


def _normal(t: float) -> float:
    """Return the value of the normal distribution that is as rare as this one of Student's (Wallace, "Bounds on normal
    approximations to Student's and the chi-square distributions", Annals of Mathematical Statistics 1959)."""
    return _FACTOR * math.sqrt(_FREEDOM * math.log1p(t * t / _FREEDOM))


def _student(normal: float) -> float:
    """The inverse of `_normal`."""
    return math.sqrt(_FREEDOM * math.expm1((normal / _FACTOR) ** 2 / _FREEDOM))


def holm(probabilities: Sequence[float]) -> list[bool]:
    """Return which differences are more than chance, by the p of each. A NaN is none, and does not count."""
    sure = [False] * len(probabilities)
    known = sorted((p, place) for place, p in enumerate(probabilities) if not math.isnan(p))
    for rank, (p, place) in enumerate(known):
        if p > SIGNIFICANCE / (len(known) - rank):
            break
        sure[place] = True
    return sure


def _interval(value: float, replicates: Floats) -> tuple[float | None, float | None]:
    finite = replicates[np.isfinite(replicates)]
    if not len(finite) or not math.isfinite(value):
        return None, None
    tail = (100 - CONFIDENCE_PERCENT) / 2
    ends = np.percentile(finite, [tail, 100 - tail])
    low, high = value + _STRETCH * (ends - value)
    return max(0.0, float(low)), float(high)


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

    def against(self, other: Score) -> dict[str, Comparison]:
        """Return figure → its comparison with another version's."""
        return {key: self.estimate(key).against(other.estimate(key)) for key in FIGURES}

    def document(self, against: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """Return the figures. `against`: figure → what the scoreboard says of its comparison."""
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

    def _class_document(self, name: str, against: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
        fct_us = self.flows.fct_us[self._in_class(name)]
        fct_us = fct_us[~np.isnan(fct_us)]
        values, shares = cdf(fct_us, CDF_POINTS) if len(fct_us) else (fct_us, fct_us)
        return {
            "n": len(fct_us),
            **{key: self._figure(f"{name}.{key}", against) for key in CLASS_FIGURES},
            "cdf": {"us": np.round(values, 1).tolist(), "share": np.round(shares, 5).tolist()},
        }

    def _figure(self, key: str, against: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
        return {**self.estimate(key).document(), "against": against and against[key]}


def scoreboard(scores: Sequence[Score], against: int | None) -> list[dict[str, Any]]:
    """Return the documents of all versions, each compared with that of version `against`, if it is there."""
    base = next((score for score in scores if score.period.version == against), None)
    if base is None:
        return [score.document() for score in scores]
    compared = {
        (score.period.version, key): comparison
        for score in scores
        if score is not base
        for key, comparison in score.against(base).items()
    }
    probabilities = [comparison.p for comparison in compared.values()]
    count = len(probabilities) - sum(map(math.isnan, probabilities))
    said: dict[int, dict[str, dict[str, Any]]] = {}
    for ((version, key), comparison), is_sure in zip(compared.items(), holm(probabilities), strict=True):
        said.setdefault(version, {})[key] = comparison.document(is_sure, max(1, count))
    return [score.document(said.get(score.period.version)) for score in scores]


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
