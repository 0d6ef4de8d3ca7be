# SPDX-License-Identifier: Apache-2.0
"""The network: its health, its topology and the schemes."""

from __future__ import annotations

import time
from typing import Literal

from flask import Response, jsonify
from pydantic import Field

from sluice.policy.network.graph import Topology
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat, SimulatorHeartbeat
from sluice.store.desired import current_topology
from sluice.webui.api import Api, Model, model_of
from sluice.webui.documents import fabric_of, health_document, scheme_document
from sluice.webui.services import services

# ── Models of the health and the topology ────────────────────────────────────────────────────────────────────────────


class TopologyModel(model_of(Topology, unknown=Literal["drop", "flood", "normal"])):  # type: ignore[misc]
    """A whole network. A port without a peer leads to hosts that name it."""


class TopologyAnswer(Model):
    topology: TopologyModel | None


class ProblemModel(Model):
    """Something that needs an operator."""

    kind: str
    where: str = Field(description="the switch, port, host or agent")
    problem: str


class StoreModel(Model):
    reachable: bool
    kind: str


class VersionsModel(Model):
    sluice: str
    policy: int


class SwitchModel(Model):
    dpid: int
    name: str
    connected: bool
    policy_version: int | None
    age_s: float


class ControllerModel(Model):
    alive: bool
    age_s: float | None
    connected: int
    expected: int
    switches: list[SwitchModel]


class AgentModel(Model):
    name: str
    alive: bool
    age_s: float


class HostStatusModel(model_of(HostHeartbeat)):  # type: ignore[misc]
    """A heartbeat without its connections, its flows and its link."""


class HostAgentModel(AgentModel):
    kind: Literal["host"]
    status: HostStatusModel


class PortStatusModel(model_of(PortHeartbeat)):  # type: ignore[misc]
    """A heartbeat without its parts about single ports."""


class PortAgentModel(AgentModel):
    kind: Literal["port"]
    status: PortStatusModel


class SimulatorStatusModel(model_of(SimulatorHeartbeat)):  # type: ignore[misc]
    """The status of a simulated network."""


class SimulatorModel(AgentModel):
    kind: Literal["simulator"]
    status: SimulatorStatusModel


class HealthModel(Model):
    """Which components work."""

    status: Literal["ok", "degraded"]
    at: float
    store: StoreModel
    versions: VersionsModel
    fabric: Literal["testbed", "simulator"] = Field(description="whether the network is real or simulated")
    dilation: float | None = Field(
        description="seconds of the wall clock for each simulated second; null if the network is real"
    )
    controller: ControllerModel
    problems: list[ProblemModel] = Field(
        description="contradictions of the network, refused agents, and what agents cannot do"
    )


class HealthAnswer(HealthModel):
    agents: list[HostAgentModel | PortAgentModel | SimulatorModel]


# ── Models of the schemes ────────────────────────────────────────────────────────────────────────────────────────────


class FieldModel(Model):
    """One field of a policy, as one scheme uses it."""

    name: str
    title: str = Field(description="label in the dashboard's form")
    kind: Literal[
        "integer",
        "number",
        "size",
        "duration",
        "boolean",
        "choice",
        "list of integer",
        "list of number",
        "list of size",
        "list of text",
        "list of override",
    ] = Field(description="the value of a size is in bytes, of a duration in nanoseconds")
    unit: str = Field(description="unit of the default and the bounds; empty if the field has none")
    allowed: str = Field(description='the allowed values, in words that continue "must be"')
    low: float | None
    high: float | None
    options: list[str] | None = Field(description="the words of a choice; null for other kinds")
    default: bool | float | str | list[float] | list[str] | None = Field(
        description="null if the field is off by default"
    )
    help: str


class SchemeModel(Model):
    name: str
    title: str
    paper: str
    congestion_control: str
    threshold_rule: Literal["none", "static", "percentile", "online"]
    queue_rule: str
    marking: Literal["none", "port", "red", "phantom"]
    queues: int
    thresholds_bytes: list[int]
    marks_bytes: list[int]
    tags_deadlines: bool
    tags_sizes: bool
    colour: str
    refused: str | None = Field(description="why this network cannot carry out the scheme's defaults")
    fields: list[FieldModel] = Field(description="the policy fields that the scheme uses")


class SchemesAnswer(Model):
    schemes: list[SchemeModel]


# ── Health, topology, schemes ────────────────────────────────────────────────────────────────────────────────────────


api = Api("network", __name__, "Health, topology, schemes")


@api.get("/health", responses={200: HealthAnswer})
def health() -> Response:
    """Whether the store, the controller, its switches and the agents work."""
    engine = services().engine
    return jsonify(health_document(engine, time.time(), current_topology(engine)))


@api.get("/topology", responses={200: TopologyAnswer})
def topology() -> Response:
    """Hosts, switches and ports; null until a network has been started."""
    current = current_topology(services().engine)
    return jsonify(topology=current.to_document() if current else None)


@api.get("/schemes", responses={200: SchemesAnswer})
def schemes() -> Response:
    """The schemes that a policy can name, with their defaults and colours."""
    fabric = fabric_of(services().engine)
    return jsonify(schemes=[scheme_document(scheme, fabric) for scheme in SCHEMES.values()])
