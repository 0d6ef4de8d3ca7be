# SPDX-License-Identifier: Apache-2.0
"""The scoreboard: what each version of the policy did to the flows that lived wholly under it."""

import time
from functools import lru_cache
from typing import Any, Literal

from flask import Response, jsonify
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.figures.scoreboard import CONFIDENCE_PERCENT, Period, Score, periods, scoreboard, scored
from sluice.policy.wire.records import TRAFFIC
from sluice.store.flow_queries import LATE_S, applied_versions, scored_flows
from sluice.store.observed import simulation
from sluice.webui.api import Api, Model
from sluice.webui.services import services


class ComparedModel(Model):
    ratio: float | None = Field(description="this figure over that of the base; null if that is 0")
    low: float | None = Field(description="lower end of the ratio's interval")
    high: float | None
    verdict: Literal["better", "worse", "not sure"] = Field(description="smaller is better")
    detectable: float | None = Field(
        description="the least change, as a share of the base's figure, that these flows would show in four of five"
        " cases; null with too few flows"
    )


class EstimateModel(Model):
    value: float | None = Field(description="null if no flow has the figure")
    low: float | None = Field(description="lower end of the confidence interval")
    high: float | None
    against: ComparedModel | None = Field(description="null for the base itself")


class CdfModel(Model):
    us: list[float] = Field(description="FCTs in microseconds, increasing")
    share: list[float] = Field(description="share of the flows with at most this FCT")


class ClassScoreModel(Model):
    n: int = Field(description="finished flows")
    mean_us: EstimateModel
    p99_us: EstimateModel
    slowdown: EstimateModel = Field(description="mean slowdown")
    cdf: CdfModel


class ScoresByClassModel(Model):
    small: ClassScoreModel
    medium: ClassScoreModel
    large: ClassScoreModel
    all: ClassScoreModel


class VersionScoreModel(Model):
    version: int
    scheme: str
    since: float = Field(description="flows that began later count; epoch seconds")
    until: float | None = Field(description="flows that ended before count; null for the version in force")
    flows: int = Field(description="flows that lived wholly under the version, at most the newest 10,000")
    unfinished: int
    deadlines: int
    missed: int
    retransmissions: int
    classes: ScoresByClassModel
    miss_ratio: EstimateModel
    retransmissions_per_flow: EstimateModel


class ScoreboardAnswer(Model):
    source: str
    against: int | None = Field(description="the version with which the others are compared")
    confidence_percent: int
    versions: list[VersionScoreModel] = Field(description="in the order of their numbers")


class ScoreboardQuery(Model):
    against: int | None = Field(
        None,
        ge=1,
        le=2**53,
        description="version with which the others are compared; by default the first in the answer",
    )
    source: Literal["scheduled", "watched", "all"] = Field(
        "scheduled", description="flows of a run's schedule, connections of other programs, or both"
    )


VERSIONS = 8
"""How many versions of the policy the scoreboard has: the newest."""


def scoreboard_document(engine: Engine, source: str, against: int | None) -> dict[str, Any]:
    """Return the scores of the newest versions that have flows. Without `against`, the first of them is the base."""
    beat = simulation(engine)
    dilation = round(max(1.0, beat.dilation), 1) if beat else 1.0
    now = time.time()
    scores = []
    for period in periods(applied_versions(engine, VERSIONS)):
        is_over = now > period.until_s + LATE_S
        score = (_finished if is_over else _read)(engine, source, period, dilation)
        if score is not None:
            scores.append(score)
    base = against if against is not None else (scores[0].period.version if scores else None)
    return {
        "source": source,
        "against": base,
        "confidence_percent": CONFIDENCE_PERCENT,
        "versions": scoreboard(scores, base),
    }


def _read(engine: Engine, source: str, period: Period, dilation: float) -> Score | None:
    flows = scored_flows(engine, TRAFFIC[source], period, dilation)
    return next(iter(scored(flows, [period])), None)


_finished = lru_cache(maxsize=4 * VERSIONS)(_read)
"""The score of a version that is over, which is kept because no flow joins it."""

api = Api("scoreboard", __name__, "The figures of each version of the policy, and whether one is better")


@api.get("/scoreboard", answers=ScoreboardAnswer)
def read_scoreboard(query: ScoreboardQuery) -> Response:
    """The newest versions of the policy that have flows, each compared with one of them.

    A flow counts for a version only if it began two seconds or more after the version was applied, and ended before
    the next one was requested. A flow that lived through a change counts for no version. So long flows are missing if
    versions follow each other quickly.

    Intervals are from a block bootstrap with a fixed seed. A figure is better or worse only if both versions have
    enough flows (30, and 300 for a 99th percentile), at a level of 5 % for all figures of the answer together
    (Holm's method).
    """
    return jsonify(scoreboard_document(services().engine, query.source, query.against))
