# SPDX-License-Identifier: Apache-2.0
"""The parameters of requests as pydantic models, which check them and describe them in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from sluice.policy.schema import entries
from sluice.policy.wire.records import MAX_LABEL

EPOCH_MAX_S = 1e11
Since = Annotated[float, Field(ge=0, le=EPOCH_MAX_S, allow_inf_nan=False)]
PortId = Annotated[str, Field(pattern=f"^{entries.PORT.pattern}$")]


class WindowQuery(BaseModel):
    window_s: float = Field(
        60, ge=1, le=86_400, allow_inf_nan=False, description="length of the window in seconds"
    )
    until: Since | None = Field(
        None, description="end of the window, in seconds since the epoch; by default now"
    )
    bin_s: float | None = Field(
        None,
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="also return a time series with bins of this many seconds",
    )


class FiguresQuery(WindowQuery):
    source: Literal["scheduled", "watched", "all"] = Field(
        "scheduled", description="flows of a run's schedule, connections of other programs, or both"
    )


class ScoreboardQuery(BaseModel):
    against: int | None = Field(
        None,
        ge=1,
        le=2**53,
        description="version with which the others are compared; by default the first in the answer",
    )
    source: Literal["scheduled", "watched", "all"] = Field(
        "scheduled", description="flows of a run's schedule, connections of other programs, or both"
    )


class PortQuery(BaseModel):
    since: Since | None = Field(
        None, description="also return the history after this time, in seconds since the epoch"
    )
    port: list[PortId] | None = Field(None, description="only these ports")


class ThresholdQuery(PortQuery):
    resolution_s: float = Field(
        0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="return only the last change of each port in every interval of this many seconds",
    )


class FlowQuery(BaseModel):
    limit: int = Field(100, ge=1, le=1000)
    before: int | None = Field(None, ge=0, le=2**53, description="the value of `next` in the previous page")
    scheme: str | None = Field(None, pattern=f"^{entries.SCHEME.pattern}$")
    size_class: Literal["small", "medium", "large"] | None = None
    status: Literal["finished", "unfinished"] | None = None
    src: str | None = Field(None, pattern=f"^{entries.ENDPOINT.pattern}$")
    dst: str | None = Field(None, pattern=f"^{entries.ENDPOINT.pattern}$")
    host: str | None = Field(
        None, pattern=f"^{entries.ENDPOINT.pattern}$", description="only flows from or to it"
    )
    label: str | None = Field(
        None,
        max_length=MAX_LABEL,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="only flows with this label in their scenario",
    )
    source: Literal["scheduled", "watched", "background"] | None = Field(
        None,
        description="only flows of a run's schedule, its endless flows, or connections of other programs",
    )
    met: Literal["true", "false"] | None = Field(
        None, description="only flows that met their deadline, or that missed it"
    )


class ActiveFlowsQuery(BaseModel):
    host: str | None = Field(
        None, pattern=f"^{entries.ENDPOINT.pattern}$", description="only flows from or to it"
    )


class HostQuery(BaseModel):
    window_s: float = Field(
        60,
        ge=1,
        le=86_400,
        allow_inf_nan=False,
        description="count the flows whose records arrived within this many seconds",
    )


class HistoryQuery(BaseModel):
    limit: int = Field(50, ge=1, le=1000, description="how many versions to return")


class PutPolicyQuery(BaseModel):
    wait_s: float = Field(
        3,
        ge=0,
        le=30,
        allow_inf_nan=False,
        description="how many seconds to wait for the controller to apply the policy",
    )


class ReportQuery(BaseModel):
    run: list[str] = Field(min_length=1, max_length=50, description="names of runs or sweeps")
    baseline: str | None = Field(
        None,
        pattern=f"^{entries.SCHEME.pattern}$",
        description="the scheme that the others are compared with; by default the first",
    )


class EventsQuery(BaseModel):
    count: int | None = Field(
        None, ge=1, le=1_000_000, description="end the stream after this many snapshots"
    )
    last_event_id: int | None = Field(
        None, ge=0, lt=10**15, description="resume after this event, as the header Last-Event-ID does"
    )


class TokenPath(BaseModel):
    name: str = Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")


class AgentPath(BaseModel):
    name: str = Field(pattern=f"^{entries.AGENT.pattern}$")


class PortPath(BaseModel):
    port: PortId
