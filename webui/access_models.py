# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about access tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class AccessAnswer(BaseModel):
    role: Literal["read", "change", "owner"] | None


class AccessTokenAnswer(BaseModel):
    token: str = Field(description="the only copy; the store keeps its hash")
    name: str
    role: Literal["read", "change"]
    expires_at: float = Field(description="epoch seconds")


class AccessTokenModel(BaseModel):
    name: str
    role: Literal["read", "change"]
    created_at: float
    expires_at: float
    revoked_at: float | None
    state: Literal["valid", "ended", "revoked"]


class AccessTokens(BaseModel):
    tokens: list[AccessTokenModel]


class TokenRevoked(BaseModel):
    revoked: str = Field(description="the token's name")
