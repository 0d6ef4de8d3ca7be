# SPDX-License-Identifier: Apache-2.0
"""Models of the scoreboard's answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ComparedModel(BaseModel):
    ratio: float | None = Field(description="this figure over that of the base; null if that is 0")
    low: float | None = Field(description="lower end of the ratio's interval")
    high: float | None
    verdict: Literal["better", "worse", "not sure"] = Field(description="smaller is better")


class EstimateModel(BaseModel):
    value: float | None = Field(description="null if no flow has the figure")
    low: float | None = Field(description="lower end of the confidence interval")
    high: float | None
    against: ComparedModel | None = Field(description="null for the base itself")


class CdfModel(BaseModel):
    us: list[float] = Field(description="FCTs in microseconds, increasing")
    share: list[float] = Field(description="share of the flows with at most this FCT")


class ClassScoreModel(BaseModel):
    n: int = Field(description="finished flows")
    mean_us: EstimateModel
    p99_us: EstimateModel
    slowdown: EstimateModel = Field(description="mean slowdown")
    cdf: CdfModel


class ScoresByClassModel(BaseModel):
    small: ClassScoreModel
    medium: ClassScoreModel
    large: ClassScoreModel
    all: ClassScoreModel


class VersionScoreModel(BaseModel):
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


class ScoreboardAnswer(BaseModel):
    source: str
    against: int | None = Field(description="the version with which the others are compared")
    confidence_percent: int
    versions: list[VersionScoreModel] = Field(description="in the order of their numbers")
