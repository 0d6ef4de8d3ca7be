# SPDX-License-Identifier: Apache-2.0
"""The API's answers as pydantic models, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from policy.agents import AgentSettings, LivingConnection
from policy.fields import PolicyFields
from policy.records import FlowRecord
from webui.capture_models import CaptureModel, CaptureOrderModel
from webui.contracts import model_of
from webui.network_models import ProblemModel


class ErrorDetail(BaseModel):
    code: str
    problem: str
    field: str | None
    index: int | None


class Error(BaseModel):
    """The one shape of all errors."""

    error: ErrorDetail


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


class DistributionModel(BaseModel):
    n: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class SeriesModel(BaseModel):
    n: list[int]
    mean: list[float | None]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


class FctSeriesModel(BaseModel):
    at: list[float]
    all: SeriesModel
    small: SeriesModel
    medium: SeriesModel
    large: SeriesModel


_WINDOW = (
    "length of the window in seconds; shorter than requested if it held more flows than the server evaluates"
)


Source = Literal["scheduled", "watched", "all"]


class FctAnswer(BaseModel):
    window_s: float = Field(description=_WINDOW)
    source: Source
    flows_per_s: float
    classes: dict[str, DistributionModel]
    slowdown: dict[str, DistributionModel] = Field(
        description="FCT over ideal FCT, of the flows whose path is known"
    )
    schemes: dict[str, dict[str, DistributionModel]]
    bin_s: float | None
    series: FctSeriesModel | None


class DeadlineSeriesModel(BaseModel):
    at: list[float]
    n: list[int]
    missed: list[int]
    miss_ratio: list[float | None]


class DeadlinesAnswer(BaseModel):
    window_s: float = Field(description=_WINDOW)
    source: Source
    n: int
    missed: int
    miss_ratio: float | None
    bin_s: float | None
    series: DeadlineSeriesModel | None


class FlowsAccepted(BaseModel):
    accepted: int = Field(ge=0, description="number of new records")
    known: int = Field(ge=0, description="number of records that had been delivered before")


class AgentSettingsModel(model_of(AgentSettings)):  # type: ignore[misc]
    """The settings that the current policy needs from an agent. Before the first policy, `host`
    and `ports` are null."""

    capture: CaptureOrderModel | None = Field(
        None, description="packets that a port agent must capture now; omitted if there are none"
    )


class TokenAnswer(BaseModel):
    token: str = Field(
        description="write it into a file and give its path to the agent with --enrol; it works once"
    )
    expires_at: int = Field(description="epoch seconds")


class AuditedChange(BaseModel):
    version: int
    at: float = Field(description="epoch seconds")
    by: str = Field(description="name of the token; `owner` is the token of the web process's start")
    address: str = Field(description="where the request came from")
    before: int | None = Field(description="the version that this one replaced")
    changed: list[str] = Field(description="the keys of the policy whose values differ")


class AuditAnswer(BaseModel):
    changes: list[AuditedChange]
    captures: list[CaptureModel]


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
