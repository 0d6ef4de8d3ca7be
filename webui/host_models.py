# SPDX-License-Identifier: Apache-2.0
"""The API's answer about one host, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from sluice.policy.wire.agents import LinkCounters, RunningFlow
from sluice.webui.contracts import model_of
from sluice.webui.fct_models import DistributionModel
from sluice.webui.flow_models import FlowModel
from sluice.webui.health_models import AgentModel
from sluice.webui.port_models import SanctionModel


class ActiveFlowModel(model_of(RunningFlow)):  # type: ignore[misc]
    """A flow of a schedule or of another program that is under way."""

    source: Literal["scheduled", "watched"]
    src: str
    src_port: int | None = Field(description="null for a scheduled flow")
    dst_port: int | None = Field(description="null for a scheduled flow")
    bytes: int | None = Field(
        description="of a scheduled flow its size, null if it is endless; of another one what it has sent so far"
    )
    rate_bps: int | None = Field(description="over about the last second; null for a scheduled flow")


class ActiveFlowsAnswer(BaseModel):
    flows: list[ActiveFlowModel] = Field(description="the newest first")


class LinkModel(model_of(LinkCounters)):  # type: ignore[misc]
    """Counters of the host's own link."""


class PlaceModel(BaseModel):
    """Where a host is in the network."""

    ipv4: str = Field(description="empty if unknown")
    ipv6: str = Field(description="empty if unknown")
    mac: str
    port: str | None = Field(description="the switch port of the host; null if unknown")
    rate_bps: int | None = Field(description="of that port")


class DeadlineTotalsModel(BaseModel):
    n: int
    missed: int
    miss_ratio: float | None


class SentModel(BaseModel):
    """The scheduled and watched flows that the host has sent and that have ended."""

    window_s: float = Field(
        description="the records arrived within this time; shorter than requested if more records arrived"
        " than the server evaluates"
    )
    flows: int
    unfinished: int
    fct: dict[str, DistributionModel] = Field(description="microseconds, by size class")
    slowdown: dict[str, DistributionModel]
    srtt_us: DistributionModel = Field(description="smoothed round-trip times at the ends of watched flows")
    deadlines: DeadlineTotalsModel
    controls: dict[str, int] = Field(description="number of flows by congestion control")


class HostAnswer(BaseModel):
    name: str
    at: float = Field(description="when the server made the answer")
    place: PlaceModel | None = Field(description="null if the network does not name the host")
    agent: AgentModel | None = Field(description="null if no agent of this host reports")
    link: LinkModel | None = Field(description="null if the agent is away or reports no counters")
    active: list[ActiveFlowModel] = Field(description="flows under way from or to the host, the newest first")
    sent: SentModel
    ended: list[FlowModel] = Field(description="the last flows from and to the host, newest first")
    sanctions: list[SanctionModel]
