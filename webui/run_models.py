# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about runs, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class RunClassModel(BaseModel):
    n: int = Field(description="finished flows")
    mean_us: float | None
    p99_us: float | None = Field(description="while the run lasts, within 1 %")


class RunFiguresModel(BaseModel):
    """The figures of a run, or those so far while it lasts."""

    classes: dict[str, RunClassModel] = Field(description="small, medium, large, all")
    deadlines: int
    missed: int
    unfinished: int


class RunProgressModel(BaseModel):
    share: float = Field(description="the part of the run that is over, 0 to 1")
    elapsed_s: float
    remaining_s: float | None = Field(description="null while it is unknown")
    recorded: int = Field(description="flows that have ended; of a sweep, points with a result")
    scheduled: int = Field(description="all flows, or all points")


class RunModel(BaseModel):
    name: str = Field(description="path in the folder of runs")
    kind: Literal["run", "sweep"]
    state: Literal["running", "ending", "done", "interrupted", "failed", "lost", "partial"] = Field(
        description="`lost`: its process ended without a result; `partial`: a sweep that lacks points"
    )
    reason: str = Field(description="why it failed, or why a sweep lacks points; may be empty")
    changed_at: float
    scenario: str
    schemes: list[str]
    on: str = Field(description="testbed or simulator")
    load: float | None
    by: str | None = Field(description="the token that started it here; null for runs of the command line")
    own: bool = Field(description="this process has started it and can cancel it")
    progress: RunProgressModel | None
    figures: RunFiguresModel | None
    valid: bool | None
    points: int | None = Field(description="of a sweep; null until it has begun")
    finished: int | None = Field(description="points of a sweep with a result")


class RunFabricModel(BaseModel):
    name: str
    problem: str | None = Field(description="why no run can start there now")


class RunsAnswer(BaseModel):
    available: bool = Field(description="whether the web process has a folder of runs")
    runs: list[RunModel] = Field(description="the newest first, at most 500")
    scenarios: list[str] = Field(description="scenarios that Sluice includes")
    fabrics: list[RunFabricModel]


class RunPlanModel(BaseModel):
    scenario: str
    scheme: str = Field(description="of a sweep, all schemes with commas between them")
    points: int | None = Field(description="of a sweep; null for a run")
    on: str
    predicted_s: float | None = Field(description="from the pace of this machine; null if unknown")
    asks: bool = Field(description="it takes an hour or longer, so its start needs `confirmed`")
    obstacle: str | None = Field(description="why it cannot start now")


class StartedRunModel(BaseModel):
    name: str
    predicted_s: float | None


class CancelledRunModel(BaseModel):
    name: str
