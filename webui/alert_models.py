# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about alerts, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from sluice.policy.alert_rules import AlertRule
from sluice.policy.schema.entries import entries

Figures = Literal["deadline-misses", "fct-p99", "slowdown-p99", "agent-down", "not-valid"]
_HELP = {one.key: one.help for one in entries(AlertRule)}


class AlertModel(BaseModel):
    alert: str = Field(description="name of the rule")
    subject: str = Field(description="the agent; empty if the rule has a single alert")
    figure: Figures | None = Field(description="what the rule watches; null if the rule is gone")
    state: Literal["ok", "pending", "firing", "resolved"]
    since: float | None = Field(description="epoch seconds of the state's begin; null for ok")
    fired_at: float | None = Field(description="epoch seconds; null before it has fired")
    value: float | None = Field(description="a share, microseconds, a factor, or seconds without a heartbeat")
    flows: int | None = Field(description="flows in the window; null if the figure is not one of flows")
    reason: str
    remedy: str
    condition: str = Field(description="what the rule means; empty if the rule is gone")


class WebhookModel(BaseModel):
    host: str | None = Field(description="host of the receiver; null without a webhook")
    waiting: int = Field(description="messages that the receiver has not accepted yet")
    problem: str = Field(description="why the oldest of them is not accepted yet")


class AlertsAnswer(BaseModel):
    rules_from: Literal["configuration", "api"]
    alerts: list[AlertModel] = Field(description="firing ones first, then pending, resolved, ok")
    webhook: WebhookModel


class AlertRuleModel(BaseModel):
    name: str = Field(description=_HELP["name"])
    figure: Figures = Field(description=_HELP["figure"])
    limit: float | str | None = Field(description=_HELP["limit"])
    size_class: Literal["all", "small", "medium", "large"] = Field(description=_HELP["size_class"])
    source: Literal["scheduled", "watched", "all"] = Field(description=_HELP["source"])
    window: str = Field(description=_HELP["window"])
    for_: str = Field(description=_HELP["for"], alias="for")
    least_flows: int = Field(description=_HELP["least_flows"])


class AlertRulesAnswer(BaseModel):
    rules_from: Literal["configuration", "api"]
    rules: list[AlertRuleModel]
