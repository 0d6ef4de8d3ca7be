# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about the network's health and its topology."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from sluice.webui.network_models import ProblemModel


class TopologyAnswer(BaseModel):
    topology: dict[str, Any] | None


class StoreModel(BaseModel):
    reachable: bool
    kind: str


class VersionsModel(BaseModel):
    sluice: str
    policy: int


class SwitchModel(BaseModel):
    dpid: int
    name: str
    connected: bool
    policy_version: int | None
    age_s: float


class ControllerModel(BaseModel):
    alive: bool
    age_s: float | None
    connected: int
    expected: int
    switches: list[SwitchModel]


class AgentModel(BaseModel):
    name: str
    kind: str
    alive: bool
    age_s: float
    status: dict[str, Any]


class HealthAnswer(BaseModel):
    status: Literal["ok", "degraded"]
    at: float
    store: StoreModel
    versions: VersionsModel
    fabric: Literal["testbed", "simulator"] = Field(description="whether the network is real or simulated")
    dilation: float | None = Field(
        description="seconds of the wall clock for each simulated second; null if the network is real"
    )
    controller: ControllerModel
    agents: list[AgentModel]
    problems: list[ProblemModel] = Field(
        description="contradictions of the network, refused agents, and what agents cannot do"
    )
