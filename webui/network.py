# SPDX-License-Identifier: Apache-2.0
"""Health, topology and schemes; and a network that exists already: its description, and what was found there."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from flask import Response, jsonify
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.network.description import Network, Sightings, as_written, discovered, read_network
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import Finding, realise
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.agents import PortHeartbeat
from sluice.store import ages
from sluice.store.desired import current_topology
from sluice.store.observed import add_event, all_agents, current_network, current_sightings, put_network
from sluice.webui.api import Api, Model, model_of, read_json
from sluice.webui.auth import require_token
from sluice.webui.documents import (
    HealthModel,
    HostAgentModel,
    PortAgentModel,
    SimulatorModel,
    fabric_of,
    health_document,
    scheme_document,
)
from sluice.webui.problems import is_alive
from sluice.webui.services import services

# ── Models of the health and the topology ────────────────────────────────────────────────────────────────────────────


class TopologyModel(model_of(Topology, unknown=Literal["drop", "flood", "normal"])):  # type: ignore[misc]
    """A whole network. A port without a peer leads to hosts that name it."""


class TopologyAnswer(Model):
    topology: TopologyModel | None


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


@api.get("/health", answers=HealthAnswer)
def health() -> Response:
    """Whether the store, the controller, its switches and the agents work."""
    engine = services().engine
    return jsonify(health_document(engine, time.time(), current_topology(engine)))


@api.get("/topology", answers=TopologyAnswer)
def topology() -> Response:
    """Hosts, switches and ports; null until a network has been started."""
    current = current_topology(services().engine)
    return jsonify(topology=current.to_document() if current else None)


@api.get("/schemes", answers=SchemesAnswer)
def schemes() -> Response:
    """The schemes that a policy can name, with their defaults and colours."""
    fabric = fabric_of(services().engine)
    return jsonify(schemes=[scheme_document(scheme, fabric) for scheme in SCHEMES.values()])


# ── Models of the answers ────────────────────────────────────────────────────────────────────────────────────────────


class FindingModel(Model):
    """A difference between the description of the network and its switches."""

    kind: str
    where: str = Field(description="the switch, port or host, as the description names it")
    problem: str
    is_error: bool = Field(
        description="whether the description is wrong or a link does not work; else a note"
    )


class FindingsAnswer(Model):
    findings: list[FindingModel]


class SeenHostModel(Model):
    name: str = Field(description="of its agent; without one, a name that follows from the address")
    mac: str
    port: str
    ipv4: str = Field(description="empty if unknown")
    ipv6: str = Field(description="empty if unknown")


class NetworkAnswer(Model):
    version: int = Field(description="of the description; 0 before the first")
    described: dict[str, Any] | None = Field(
        description="null if the network is not described, or was withdrawn"
    )
    discovered: dict[str, Any] = Field(
        description="what a description would be that follows from the switches alone"
    )
    hosts: list[SeenHostModel] = Field(description="hosts that the switches have seen")
    findings: list[FindingModel]


# ── The endpoints ────────────────────────────────────────────────────────────────────────────────────────────────────


description_api = Api("network-description", __name__, "The operator's description of the network")


@description_api.get("/network", answers=NetworkAnswer)
def read_description() -> Response:
    """The description in force, what the switches report, and where the two differ."""
    return jsonify(_answer(services().engine))


@description_api.put("/network", answers=NetworkAnswer, token=True, body=Network)
def change_description() -> Response:
    """Make this document the description of the network. The controller follows within a second."""
    require_token()
    document = read_json()
    read_network(document)
    return _put(document)


@description_api.post("/network/check", answers=FindingsAnswer, body=Network)
def check_description() -> Response:
    """Compare a description with what the switches report. Nothing changes."""
    network = read_network(read_json())
    seen = current_sightings(services().engine) or Sightings()
    return jsonify(findings=_findings(network, seen))


@description_api.delete("/network", answers=NetworkAnswer, errors=[400, 413, 415], token=True)
def withdraw_description() -> Response:
    """Make Sluice leave the network: the controller removes its rules from all switches and adds no more."""
    require_token()
    return _put(None)


def _put(document: Mapping[str, Any] | None) -> Response:
    engine = services().engine
    version = put_network(engine, document, author="api")
    add_event(engine, "network-described" if document is not None else "network-withdrawn", version=version)
    return jsonify(_answer(engine))


def _answer(engine: Engine) -> dict[str, Any]:
    newest, seen = current_network(engine), current_sightings(engine) or Sightings()
    by_discovery = discovered(seen)
    network = newest.network if newest is not None else None
    hosts = []
    for host in seen.hosts.values():
        dpid, number = host.at
        switch = seen.switches.get(dpid)
        name = next((port.name for port in switch.ports if port.number == number), "") if switch else ""
        place = f"{switch.name if switch else format(dpid, '016x')}:{name or number}"
        hosts.append(
            {"name": host.name, "mac": host.mac, "port": place, "ipv4": host.ipv4, "ipv6": host.ipv6}
        )
    return {
        "version": newest.version if newest else 0,
        "described": newest.document if newest else None,
        "discovered": as_written(by_discovery),
        "hosts": hosts,
        "findings": _findings(network or by_discovery, seen),
    }


def _findings(network: Network, seen: Sightings) -> list[dict[str, Any]]:
    findings = (*realise(network, seen).findings, *_ignored_settings(network))
    return [finding._asdict() for finding in findings]


def _ignored_settings(network: Network) -> Iterator[Finding]:
    """Yield what port agents report of ports at which Sluice forwards, such as VLANs that its rules would not keep."""
    forwarding = {switch.name for switch in network.switch if switch.forwards}
    engine = services().engine
    now_s = ages.age_s(engine)
    beats = (row.heartbeat for row in all_agents(engine) if is_alive(row, now_s))
    for beat in beats:
        for problem in beat.problems if isinstance(beat, PortHeartbeat) else ():
            where, _, what = problem.partition(" ")
            if where.partition(":")[0] in forwarding:
                yield Finding("port", where, what)
