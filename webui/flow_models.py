# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about flows, and of the delivery of their records."""

from __future__ import annotations

from pydantic import BaseModel, Field

from sluice.policy.wire.agents import LivingConnection
from sluice.policy.wire.records import FlowRecord
from sluice.webui.contracts import model_of


class FlowModel(model_of(FlowRecord)):  # type: ignore[misc]
    """A flow record, its place in the order of reception, and the time of reception."""

    sequence: int
    received_at: float


class FlowsAnswer(BaseModel):
    flows: list[FlowModel]
    next: int | None = Field(description="`before` of the following page; null if there are no older records")
    searched_to: float | None = Field(
        description="when the oldest record that this page looked at arrived; null if it looked at none"
    )


class LivingConnectionModel(model_of(LivingConnection)):  # type: ignore[misc]
    """An open TCP connection of any program."""


class ConnectionsAnswer(BaseModel):
    living: list[LivingConnectionModel] = Field(description="open connections, fastest first")
    ended: list[FlowModel] = Field(
        description="connections whose record arrived within the last minute, newest first"
    )
    lost: int = Field(description="connections that the hosts' watches missed")


class FlowsAccepted(BaseModel):
    accepted: int = Field(ge=0, description="number of new records")
    known: int = Field(ge=0, description="number of records that had been delivered before")
