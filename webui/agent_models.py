# SPDX-License-Identifier: Apache-2.0
"""Models of the answers to agents, and about their certificates."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from sluice.policy.wire.agents import AgentSettings
from sluice.webui.contracts import model_of


class AgentSettingsModel(model_of(AgentSettings)):  # type: ignore[misc]
    """The settings that the current policy needs from an agent. Before the first policy, `host`
    and `ports` are null."""


class TokenAnswer(BaseModel):
    token: str = Field(
        description="write it into a file and give its path to the agent with --enrol; it works once"
    )
    expires_at: int = Field(description="epoch seconds")


class AgentCertificate(BaseModel):
    serial: str
    name: str
    kind: str
    issued_at: float
    ends_at: float
    revoked_at: float | None
    state: Literal["valid", "ended", "revoked"]


class AgentCertificates(BaseModel):
    certificates: list[AgentCertificate]


class RevokedAnswer(BaseModel):
    revoked: int = Field(description="number of certificates and unused tokens that ended")


class AuthorityAnswer(BaseModel):
    authority: str = Field(description="certificate in PEM")


class CertificateAnswer(BaseModel):
    certificate: str = Field(description="the agent's certificate in PEM")
    authorities: str = Field(description="certificates in PEM of all authorities that the agent must trust")
