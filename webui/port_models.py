# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about ports: thresholds, counters and sanctions."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ThresholdModel(BaseModel):
    at: float
    port: str
    policy_version: int
    thresholds_bytes: list[int]
    flows: int


class ThresholdsAnswer(BaseModel):
    now: dict[str, ThresholdModel]
    history: list[ThresholdModel]


class RateModel(BaseModel):
    at: float
    rate_bps: int
    queue_rates_bps: list[int]


class PortModel(BaseModel):
    at: float
    capacity_bps: int | None
    rate_bps: int | None
    queue_rates_bps: list[int] | None
    load: float | None
    queue_bytes: list[int]
    queue_packets: list[int]


class PortsAnswer(BaseModel):
    now: dict[str, PortModel]
    history: dict[str, list[RateModel]]


class SanctionModel(BaseModel):
    port: str
    host: str
    since: float
    flow: str = Field(description="the flow that proved the wrong tag")
    tag: int
    sent_bytes: int = Field(
        description="payload that the flow sent with tags up to this one, or with this size class"
    )
    limit_bytes: int = Field(description="the most that a flow with correct tags can send in that time")
    duration_s: float
    offences: int
    term_s: float = Field(description="seconds without a new proof after which the host is restored")
    rate_bps: int | None = Field(description="the most that the host may send; null without a limit")


class SanctionsAnswer(BaseModel):
    sanctions: list[SanctionModel]
