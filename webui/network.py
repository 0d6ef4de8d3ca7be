# SPDX-License-Identifier: Apache-2.0
"""The network: its health, topology and schemes, its description by an operator, and the live picture as events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

from flask import Response, jsonify, request
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.network.description import Network, Sightings, as_written, discovered, read_network
from sluice.policy.network.realised import realise
from sluice.policy.schema.entries import schema
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.access import READ
from sluice.store.desired import current_topology
from sluice.store.networks import current_network, current_sightings, put_network
from sluice.store.observed import add_event
from sluice.webui.api import Api, Error, Model
from sluice.webui.auth import require_token
from sluice.webui.bodies import read_json
from sluice.webui.callers import PLACE, STREAM
from sluice.webui.documents import fabric_of, health_document, scheme_document
from sluice.webui.errors import ApiError
from sluice.webui.services import services

# ── Models of a network that exists already ──────────────────────────────────────────────────────────────────────────


class ProblemModel(Model):
    """Something that needs an operator."""

    kind: str
    where: str = Field(description="the switch, port, host or agent")
    problem: str


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


# ── Models of the health and the topology ────────────────────────────────────────────────────────────────────────────


class TopologyAnswer(Model):
    topology: dict[str, Any] | None


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
    kind: str
    alive: bool
    age_s: float
    status: dict[str, Any]


class HealthAnswer(Model):
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


# ── Models of the schemes ────────────────────────────────────────────────────────────────────────────────────────────


class FieldModel(Model):
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


class SchemeModel(Model):
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


# ── The description of a network that exists already ─────────────────────────────────────────────────────────────────


description_api = Api("network-description", __name__, "The operator's description of the network")

_DESCRIPTION_ANSWERS: dict[Any, Any] = {
    200: NetworkAnswer,
    400: Error,
    401: Error,
    403: Error,
    413: Error,
    415: Error,
}


@description_api.get("/network", responses={200: NetworkAnswer})
def read_description() -> Response:
    """The description in force, what the switches report, and where the two differ."""
    return jsonify(_answer(services().engine))


@description_api.put(
    "/network",
    responses=_DESCRIPTION_ANSWERS,
    security=[{"bearer": []}],
    body=lambda: schema(Network),
)
def change_description() -> Response:
    """Make this document the description of the network. The controller follows within a second."""
    require_token(services().token)
    document = read_json()
    read_network(document)
    return _put(document)


@description_api.post(
    "/network/check",
    responses={200: FindingsAnswer, 400: Error, 413: Error, 415: Error},
    body=lambda: schema(Network),
)
def check_description() -> Response:
    """Compare a description with what the switches report. Nothing changes."""
    network = read_network(read_json())
    seen = current_sightings(services().engine) or Sightings()
    return jsonify(findings=_findings(network, seen))


@description_api.delete("/network", responses=_DESCRIPTION_ANSWERS, security=[{"bearer": []}])
def withdraw_description() -> Response:
    """Make Sluice leave the network: the controller removes its rules from all switches and adds no more."""
    require_token(services().token)
    return _put(None)


def _put(document: Mapping[str, Any] | None) -> Response:
    engine = services().engine
    version = put_network(engine, document, author="description_api")
    add_event(engine, "network-described" if document is not None else "network-withdrawn", version=version)
    return jsonify(_answer(engine))


def _answer(engine: Engine) -> dict[str, Any]:
    newest, seen = current_network(engine), current_sightings(engine) or Sightings()
    found = discovered(seen)
    network = newest.network if newest is not None else None
    return {
        "version": newest.version if newest else 0,
        "described": newest.document if newest else None,
        "discovered": as_written(found),
        "hosts": [
            {
                "name": host.name,
                "mac": host.mac,
                "port": _place(seen, *host.at),
                "ipv4": host.ipv4,
                "ipv6": host.ipv6,
            }
            for host in seen.hosts.values()
        ],
        "findings": _findings(network or found, seen),
    }


def _findings(network: Network, seen: Sightings) -> list[dict[str, Any]]:
    return [finding._asdict() for finding in realise(network, seen).findings]


def _place(seen: Sightings, dpid: int, number: int) -> str:
    switch = seen.switches.get(dpid)
    name = next((port.name for port in switch.ports if port.number == number), "") if switch else ""
    return f"{switch.name if switch else format(dpid, '016x')}:{name or number}"


# ── Server-sent events: the live picture ─────────────────────────────────────────────────────────────────────────────


class EventsQuery(Model):
    count: int | None = Field(
        None, ge=1, le=1_000_000, description="end the stream after this many snapshots"
    )
    last_event_id: int | None = Field(
        None, ge=0, lt=10**15, description="resume after this event, as the header Last-Event-ID does"
    )


events_api = Api("events", __name__, "The live picture, once a second")


@events_api.get(
    "/events",
    responses={
        200: {
            "description": "a `snapshot` message each second, `event` messages with ids, `trouble` if the store fails",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        429: Error,
    },
)
def events(query: EventsQuery) -> Response:
    """Server-sent events. The header Last-Event-ID, or else `last_event_id`, resumes the stream after that event.

    A token is not needed, but 429 comes earlier without one.
    """
    found = services()
    leave = request.environ.get(PLACE) or found.streams.take(_has_token())
    try:
        stream = found.live.stream(_last_event_id(query), query.count, leave)
    except BaseException:
        leave()
        raise
    request.environ[STREAM] = stream
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(stream, mimetype="text/event-stream", headers=headers)


def _has_token() -> bool:
    """Return whether the request carries the token. A stream needs none, but those without one have fewer places."""
    try:
        require_token(services().token, READ)
    except ApiError:
        return False
    return True


def _last_event_id(query: EventsQuery) -> int | None:
    """Return the last event that the client has. A header that is no number counts as absent."""
    given = request.headers.get("Last-Event-ID", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else query.last_event_id
