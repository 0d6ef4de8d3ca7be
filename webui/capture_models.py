# SPDX-License-Identifier: Apache-2.0
"""The API's answers about captures, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from sluice.policy.captures import CAPTURE_ID, CaptureOrder
from sluice.webui.bodies import AgentPath, model_of


class CaptureOrderModel(model_of(CaptureOrder)):  # type: ignore[misc]
    """What a port agent must capture now."""


class CaptureModel(BaseModel):
    id: str
    port: str
    agent: str = Field(description="the port agent that captures")
    seconds: float
    bytes: int = Field(description="the file ends at this size")
    snap_bytes: int = Field(description="how much of each packet is captured")
    by: str = Field(description="name of the token")
    address: str = Field(description="where the request came from")
    at: float = Field(description="when it was asked for; epoch seconds")
    state: Literal["running", "done", "failed"]
    problem: str = Field(description="why it failed; empty if it did not")
    packets: int = Field(description="packets in the file")
    lost: int = Field(description="packets that the kernel could not give to the capture in time")
    full: bool = Field(description="whether the size ended the capture before its time")
    size: int = Field(description="bytes of the file")


class CaptureDelivered(BaseModel):
    accepted: bool = Field(description="false if the capture had ended before")


class CapturePath(BaseModel):
    capture: str = Field(pattern=f"^{CAPTURE_ID.pattern}$")


class DeliveryPath(AgentPath, CapturePath):
    """The agent that delivers, and the capture."""
