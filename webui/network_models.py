# SPDX-License-Identifier: Apache-2.0
"""The API's answers about a network that exists already, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class ProblemModel(BaseModel):
    """Something that needs an operator."""

    kind: str
    where: str = Field(description="the switch, port, host or agent")
    problem: str


class FindingModel(BaseModel):
    """A difference between the description of the network and its switches."""

    kind: str
    where: str = Field(description="the switch, port or host, as the description names it")
    problem: str
    is_error: bool = Field(
        description="whether the description is wrong or a link does not work; else a note"
    )


class FindingsAnswer(BaseModel):
    findings: list[FindingModel]


class SeenHostModel(BaseModel):
    name: str = Field(description="of its agent; without one, a name that follows from the address")
    mac: str
    port: str
    ipv4: str = Field(description="empty if unknown")
    ipv6: str = Field(description="empty if unknown")


class NetworkAnswer(BaseModel):
    version: int = Field(description="of the description; 0 before the first")
    described: dict[str, Any] | None = Field(
        description="null if the network is not described, or was withdrawn"
    )
    discovered: dict[str, Any] = Field(
        description="what a description would be that follows from the switches alone"
    )
    hosts: list[SeenHostModel] = Field(description="hosts that the switches have seen")
    findings: list[FindingModel]
