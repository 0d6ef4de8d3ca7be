# SPDX-License-Identifier: Apache-2.0
"""Health, topology and schemes; and a network that exists already: its description, and what was found there."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from flask import Response, jsonify
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.fabrics import SIMULATOR, TESTBED, refusal
from sluice.policy.network.description import Network, Sightings, as_written, discovered, read_network
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import Finding, realise
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import Entry, write
from sluice.policy.schema.field_kinds import ParameterValues
from sluice.policy.schema.fields import scheme_fields
from sluice.policy.schemes import SCHEMES, Scheme
from sluice.policy.version import VERSION
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat, SimulatorHeartbeat
from sluice.store import ages, observed
from sluice.store.desired import add_act, current_topology, current_version
from sluice.store.failures import last_failure
from sluice.webui.api import Api, Model, model_of, read_json
from sluice.webui.auth import Caller, require_token
from sluice.webui.problems import problems
from sluice.webui.services import services


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
        description="contradictions of the network, what has ended, refused agents, and what agents cannot do"
    )


class HealthAnswer(HealthModel):
    agents: list[HostAgentModel | PortAgentModel | SimulatorModel]


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
        "table",
    ] = Field(description="the value of a size is in bytes, of a duration in nanoseconds")
    unit: str = Field(description="unit of the default and the bounds; empty if the field has none")
    allowed: str = Field(description='the allowed values, in words that continue "must be"')
    low: float | None
    high: float | None
    options: list[str] | None = Field(description="the words of a choice; null for other kinds")
    default: bool | float | str | list[float] | list[str] | dict[str, int] | None = Field(
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


CONTROLLER_LATE_S = 5.0
"""A controller that wrote nothing for this long counts as away. It samples the ports about every second."""


def scheme_document(scheme: Scheme, fabric: str) -> dict[str, Any]:
    """Describe a scheme, and whether the fabric can carry it out."""
    return {name: getattr(scheme, name, None) for name in SchemeModel.model_fields} | {
        "threshold_rule": scheme.threshold_rule.value,
        "queue_rule": scheme.queue_rule.label,
        "marking": scheme.marking.value,
        "refused": refusal(Policy.from_document({"scheme": scheme.name}), fabric),
        "fields": [field_document(field) for field in scheme_fields(scheme)],
    }


def field_document(field: Entry) -> dict[str, Any]:
    """Describe a policy field for the dashboard's form."""
    default = field.default.to_document() if isinstance(field.default, ParameterValues) else field.default
    own = {"name": field.name, "title": field.title, "default": default, "help": field.help}
    kind = {name: getattr(field.kind, name, None) for name in ("unit", "allowed", "low", "high", "options")}
    document = {**kind, "options": list(kind["options"] or ()) or None, "kind": field.kind.name, **own}
    return {name: document[name] for name in FieldModel.model_fields}


def health_document(
    engine: Engine, now: float, topology: Topology | None, agents: Sequence[observed.AgentRow]
) -> dict[str, Any]:
    """Return which components work. `status` is "ok" if every known switch and agent is up, and nothing is wrong."""
    controller = controller_document(engine, topology)
    everyone = controller["alive"] and controller["connected"] >= max(controller["expected"], 1)
    wrong = problems(engine, now, topology, controller, agents)
    works = everyone and not wrong and all(row.is_alive for row in agents)
    simulators = (row.heartbeat for row in agents if isinstance(row.heartbeat, SimulatorHeartbeat))
    simulator = next(simulators, None)
    return {
        "status": "ok" if works else "degraded",
        "at": now,
        "store": {"reachable": last_failure(engine) is None, "kind": engine.dialect.name},
        "versions": {"sluice": VERSION, "policy": current_version(engine)},
        "fabric": SIMULATOR if simulator else TESTBED,
        "dilation": simulator.dilation if simulator else None,
        "controller": controller,
        "agents": [agent_document(row) for row in agents],
        "problems": wrong,
    }


def controller_document(engine: Engine, topology: Topology | None) -> dict[str, Any]:
    """Describe the controller, which is alive if it wrote a row lately.

    A switch counts as connected as long as the controller that leads it writes its row.
    """
    age_s, rows = ages.age_s(engine), observed.all_switches(engine)
    seen_s = observed.controller_seen_s(engine)
    alive = seen_s is not None and age_s - seen_s < CONTROLLER_LATE_S
    switches = []
    for row in rows:
        wrote_s = row["seen_s"] or 0.0
        switches.append(
            {
                "dpid": row["dpid"],
                "name": row["name"],
                "connected": row["connected"] and age_s - wrote_s < CONTROLLER_LATE_S,
                "policy_version": row["policy_version"],
                "age_s": _ago(age_s, wrote_s),
            }
        )
    return {
        "alive": alive,
        "age_s": None if seen_s is None else _ago(age_s, seen_s),
        "connected": sum(switch["connected"] for switch in switches),
        "expected": len(topology.switches) if topology else 0,
        "switches": switches,
    }


def _ago(age_s: float, seen_s: float) -> float:
    """Return how long ago this was. The clocks of several machines may differ a little."""
    return round(max(0.0, age_s - seen_s), 3)


def agent_document(row: observed.AgentRow) -> dict[str, Any]:
    """Describe an agent. `status` is its heartbeat without the long parts, because every dashboard gets it each second.

    connections_document shows the connections of all agents together, /hosts the other parts of one host, /metrics
    the ports' counters, and `problems` what a port agent reports.
    """
    status = row.heartbeat
    if isinstance(status, HostHeartbeat):
        watch = replace(status.watch, connections=())
        status = replace(status, watch=watch, running=(), link=None)
    if isinstance(status, PortHeartbeat):
        status = replace(status, attached={}, ports={}, late_ns={}, problems=())
    return {
        "name": row.name,
        "kind": row.kind,
        "alive": row.is_alive,
        "age_s": round(row.age_s, 3),
        "status": write(status),
    }


api = Api("network", __name__, "Health, topology, schemes")


@api.get("/health", answers=HealthAnswer)
def health() -> Response:
    """Whether the store, the controller, its switches and the agents work. The answer may be 0.5 s old."""
    return Response(services().health.get(_health_now), mimetype="application/json")


def _health_now() -> bytes:
    engine = services().engine
    agents = observed.all_agents(engine)
    return jsonify(health_document(engine, time.time(), current_topology(engine), agents)).get_data()


@api.get("/topology", answers=TopologyAnswer)
def topology() -> Response:
    """Hosts, switches and ports; null until a network has been started."""
    current = current_topology(services().engine)
    return jsonify(topology=current.to_document() if current else None)


@api.get("/schemes", answers=SchemesAnswer)
def schemes() -> Response:
    """The schemes that a policy can name, with their defaults and colours."""
    fabric = TESTBED if observed.simulation(services().engine) is None else SIMULATOR
    return jsonify(schemes=[scheme_document(scheme, fabric) for scheme in SCHEMES.values()])


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
    vlan: int = Field(description="0 if its frames have no VLAN, or no port of the network names one")


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


description_api = Api("network-description", __name__, "The operator's description of the network")


@description_api.get("/network", answers=NetworkAnswer)
def read_description() -> Response:
    """The description in force, what the switches report, and where the two differ."""
    return jsonify(_answer(services().engine))


@description_api.put("/network", answers=NetworkAnswer, token=True, body=Network)
def change_description() -> Response:
    """Make this document the description of the network. The controller follows within a second."""
    caller = require_token()
    document = read_json()
    read_network(document)
    return _put(document, caller)


@description_api.post("/network/check", answers=FindingsAnswer, body=Network)
def check_description() -> Response:
    """Compare a description with what the switches report. Nothing changes."""
    network = read_network(read_json())
    seen = observed.current_sightings(services().engine) or Sightings()
    return jsonify(findings=_findings(network, seen))


@description_api.delete("/network", answers=NetworkAnswer, errors=[400, 413, 415], token=True)
def withdraw_description() -> Response:
    """Make Sluice leave the network: the controller removes its rules from all switches and adds no more."""
    return _put(None, require_token())


def _put(document: Mapping[str, Any] | None, caller: Caller) -> Response:
    engine = services().engine
    version = observed.put_network(engine, document, author=caller.name)
    what = "network-withdrawn" if document is None else "network-described"
    add_act(engine, what, caller, version=version)
    return jsonify(_answer(engine))


def _answer(engine: Engine) -> dict[str, Any]:
    newest, seen = observed.current_network(engine), observed.current_sightings(engine) or Sightings()
    by_discovery = discovered(seen)
    network = newest.network if newest is not None else None
    hosts = []
    for host in seen.hosts.values():
        dpid, number = host.at
        switch = seen.switches.get(dpid)
        name = next((port.name for port in switch.ports if port.number == number), "") if switch else ""
        place = f"{switch.name if switch else format(dpid, '016x')}:{name or number}"
        addresses = {"mac": host.mac, "ipv4": host.ipv4, "ipv6": host.ipv6, "vlan": host.vlan}
        hosts.append({"name": host.name, "port": place, **addresses})
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
    """Yield what rules of Sluice would not keep at ports at which it forwards, such as VLANs, as port agents report."""
    forwarding = {switch.name for switch in network.switch if switch.forwards}
    for beat in (row.heartbeat for row in observed.all_agents(services().engine) if row.is_alive):
        for where, what in beat.unkept.items() if isinstance(beat, PortHeartbeat) else ():
            if where.partition(":")[0] in forwarding:
                yield Finding("port", where, what)
