# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about completion times and deadlines."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class DistributionModel(BaseModel):
    n: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class SeriesModel(BaseModel):
    n: list[int]
    mean: list[float | None]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


class FctSeriesModel(BaseModel):
    at: list[float]
    all: SeriesModel
    small: SeriesModel
    medium: SeriesModel
    large: SeriesModel


_WINDOW = (
    "length of the window in seconds; shorter than requested if it held more flows than the server evaluates"
)


Source = Literal["scheduled", "watched", "all"]


class FctAnswer(BaseModel):
    window_s: float = Field(description=_WINDOW)
    source: Source
    flows_per_s: float
    classes: dict[str, DistributionModel]
    slowdown: dict[str, DistributionModel] = Field(
        description="FCT over ideal FCT, of the flows whose path is known"
    )
    schemes: dict[str, dict[str, DistributionModel]]
    bin_s: float | None
    series: FctSeriesModel | None


class DeadlineSeriesModel(BaseModel):
    at: list[float]
    n: list[int]
    missed: list[int]
    miss_ratio: list[float | None]


class DeadlinesAnswer(BaseModel):
    window_s: float = Field(description=_WINDOW)
    source: Source
    n: int
    missed: int
    miss_ratio: float | None
    bin_s: float | None
    series: DeadlineSeriesModel | None
