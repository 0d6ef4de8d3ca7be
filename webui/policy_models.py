# SPDX-License-Identifier: Apache-2.0
"""Models of the answers about the policy and the schemes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from sluice.policy.schema.fields import PolicyFields
from sluice.webui.contracts import model_of


class OverrideModel(BaseModel):
    ports: list[str] = Field(description='"s1:2", "s1:*" or "*"')
    thresholds: list[int] | None = Field(None, description="fixed by hand, in bytes")
    freeze: bool = Field(False, description="whether the ports keep the thresholds that are in force")


class PolicyModel(model_of(PolicyFields, overrides=list[OverrideModel])):  # type: ignore[misc]
    """A policy with all its fields."""


class PolicyVersionModel(BaseModel):
    version: int
    policy: PolicyModel
    author: str
    created_at: float
    applied_at: float | None
    state: Literal["applied", "pending", "superseded"]


class ChangedPolicyModel(PolicyVersionModel):
    """The policy after a change."""

    warnings: list[str] = Field(description="names of ports that the network does not have")


class PolicyAnswer(BaseModel):
    current: PolicyVersionModel | None
    history: list[PolicyVersionModel]


class PolicyChange(BaseModel):
    """A field whose value a document changes."""

    field: str
    title: str = Field(description="label of the field")
    before: Any = Field(description="the value in force; null also before the first policy")
    after: Any
    because: str = Field(description="where the new value comes from")


class PolicyPreview(BaseModel):
    policy: PolicyModel
    against: int | None = Field(description="the version in force; null before the first policy")
    changes: list[PolicyChange]


class FieldModel(BaseModel):
    """One field of a policy, as one scheme uses it."""

    name: str
    title: str = Field(description="label in the dashboard's form")
    kind: str = Field(
        description="integer, number, boolean, choice, size, duration, or a list of one of them"
    )
    unit: str = Field(description="unit of the default and the bounds; empty if the field has none")
    allowed: str = Field(description='the allowed values, in words that continue "must be"')
    low: float | None
    high: float | None
    default: Any
    help: str


class SchemeModel(BaseModel):
    name: str
    title: str
    paper: str
    congestion_control: str
    threshold_rule: str
    queue_rule: str
    marking: str
    queues: int
    thresholds_bytes: list[int]
    marks_bytes: list[int]
    tags_deadlines: bool
    tags_sizes: bool
    colour: str
    refused: str | None = Field(description="why this network cannot carry out the scheme's defaults")
    fields: list[FieldModel] = Field(description="the policy fields that the scheme uses")


class SchemesAnswer(BaseModel):
    schemes: list[SchemeModel]


class AuditedChange(BaseModel):
    version: int
    at: float = Field(description="epoch seconds")
    by: str = Field(description="name of the token; `owner` is the token of the web process's start")
    address: str = Field(description="where the request came from")
    before: int | None = Field(description="the version that this one replaced")
    changed: list[str] = Field(description="the keys of the policy whose values differ")


class AuditAnswer(BaseModel):
    changes: list[AuditedChange]
