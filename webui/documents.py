# SPDX-License-Identifier: Apache-2.0
"""The API's documents of the store's rows. Endpoints and live events send the same documents."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.fabrics import SIMULATOR, TESTBED, refusal
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import Entry, write
from sluice.policy.schema.fields import PolicyFields, scheme_fields
from sluice.policy.schemes import Scheme
from sluice.policy.wire.agents import (
    HostHeartbeat,
    PortHeartbeat,
    SimulatorHeartbeat,
    programmed_ports,
)
from sluice.policy.wire.records import WATCHED
from sluice.store import ages
from sluice.store.desired import PolicyVersion, current_version, policy_in_force
from sluice.store.failures import last_failure
from sluice.store.flows import newest_flows
from sluice.store.observed import (
    AgentRow,
    ThresholdChange,
    all_agents,
    all_sanctions,
    all_switches,
    controller_seen_s,
    latest_thresholds,
    newest_port_samples,
    port_history,
    simulation,
)
from sluice.webui import __version__, figures
from sluice.webui.api import Model, model_of
from sluice.webui.problems import is_alive, problems

CONTROLLER_LATE_S = 5.0
"""A controller that wrote nothing for this long counts as away. It samples the ports about every second."""
RATE_WINDOW_S = 10.0


def fabric_of(engine: Engine) -> str:
    """Return what the network is: "testbed" or "simulator"."""
    return TESTBED if simulation(engine) is None else SIMULATOR


def scheme_document(scheme: Scheme, fabric: str) -> dict[str, Any]:
    """Describe a scheme, and whether the fabric can carry it out."""
    return {
        "name": scheme.name,
        "title": scheme.title,
        "paper": scheme.paper,
        "congestion_control": scheme.congestion_control,
        "threshold_rule": scheme.threshold_rule.value,
        "queue_rule": scheme.queue_rule.label,
        "marking": scheme.marking.value,
        "queues": scheme.queues,
        "thresholds_bytes": list(scheme.thresholds_bytes),
        "marks_bytes": list(scheme.marks_bytes),
        "tags_deadlines": scheme.tags_deadlines,
        "tags_sizes": scheme.tags_sizes,
        "colour": scheme.colour,
        "refused": refusal(Policy.from_document({"scheme": scheme.name}), fabric),
        "fields": [field_document(field) for field in scheme_fields(scheme)],
    }


def field_document(field: Entry) -> dict[str, Any]:
    """Describe a policy field for the dashboard's form."""
    return {
        "name": field.name,
        "title": field.title,
        "kind": field.kind.name,
        "unit": field.kind.unit,
        "allowed": field.kind.allowed,
        "low": getattr(field.kind, "low", None),
        "high": getattr(field.kind, "high", None),
        "options": list(getattr(field.kind, "options", ())) or None,
        "default": field.default,
        "help": field.help,
    }


class OverrideModel(Model):
    ports: list[str] = Field(description='"s1:2", "s1:*" or "*"')
    thresholds: list[int] | None = Field(None, description="fixed by hand, in bytes")
    freeze: bool = Field(False, description="whether the ports keep the thresholds that are in force")


class PolicyModel(model_of(PolicyFields, overrides=list[OverrideModel])):  # type: ignore[misc]
    """A policy with all its fields."""


class PolicyVersionModel(Model):
    version: int
    policy: PolicyModel
    author: str
    created_at: float
    applied_at: float | None
    state: Literal["applied", "pending", "superseded"]


def policy_document(version: PolicyVersion, newest_version: int) -> dict[str, Any]:
    state = "pending" if version.applied_at is None else "applied"
    return {
        "version": version.version,
        "policy": version.policy.to_document(),
        "author": version.author,
        "created_at": version.created_at,
        "applied_at": version.applied_at,
        "state": "superseded" if version.version < newest_version else state,
    }


def current_policy_document(engine: Engine) -> dict[str, Any] | None:
    current = policy_in_force(engine)
    return policy_document(current, current.version) if current else None


def threshold_document(change: ThresholdChange) -> dict[str, Any]:
    return {
        "at": change.at,
        "port": change.port,
        "policy_version": change.policy_version,
        "thresholds_bytes": list(change.thresholds_bytes),
        "flows": change.flows,
    }


def thresholds_now(engine: Engine) -> dict[str, Any]:
    return {port: threshold_document(change) for port, change in sorted(latest_thresholds(engine).items())}


def capacities_bps(topology: Topology | None) -> dict[str, int]:
    return {port.id: port.rate_bps for port in topology.ports} if topology else {}


def ports_now(engine: Engine, now: float, topology: Topology | None) -> dict[str, Any]:
    """Return each port's latest counters, and its rate over the last seconds (None without recent samples)."""
    capacity = capacities_bps(topology)
    rates = figures.port_rates(port_history(engine, now - RATE_WINDOW_S))
    loads = figures.loads(rates, capacity)
    nothing = {"rate_bps": None, "queue_rates_bps": None, "load": None}
    return {
        sample.port: {
            "capacity_bps": capacity.get(sample.port),
            **nothing,
            **loads.get(sample.port, {}),
            "at": sample.at,
            "queue_bytes": list(sample.queue_bytes),
            "queue_packets": list(sample.queue_packets),
        }
        for sample in newest_port_samples(engine)
    }


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


def health_document(engine: Engine, now: float, topology: Topology | None) -> dict[str, Any]:
    """Return which components work. `status` is "ok" if every known switch and agent is up, and nothing is wrong."""
    age_s = ages.age_s(engine)
    controller = controller_document(engine, age_s, topology)
    rows = all_agents(engine)
    agents = [agent_document(row, age_s) for row in rows]
    everyone = controller["alive"] and controller["connected"] >= max(controller["expected"], 1)
    alive = (row for row in rows if is_alive(row, age_s))
    programmed = programmed_ports(row.heartbeat for row in rows)
    wrong = problems(engine, now, topology, controller, alive, programmed)
    works = everyone and not wrong and all(agent["alive"] for agent in agents)
    simulators = (row.heartbeat for row in rows if isinstance(row.heartbeat, SimulatorHeartbeat))
    simulator = next(simulators, None)
    return {
        "status": "ok" if works else "degraded",
        "at": now,
        "store": {"reachable": last_failure(engine) is None, "kind": engine.dialect.name},
        "versions": {"sluice": __version__, "policy": current_version(engine)},
        "fabric": SIMULATOR if simulator else TESTBED,
        "dilation": simulator.dilation if simulator else None,
        "controller": controller,
        "agents": agents,
        "problems": wrong,
    }


def controller_document(engine: Engine, age_s: float, topology: Topology | None) -> dict[str, Any]:
    """Describe the controller, which is alive if it wrote a row lately. `age_s` is the reading of the store's clock.

    A switch counts as connected as long as the controller that leads it writes its row.
    """
    rows = all_switches(engine)
    seen_s = controller_seen_s(engine)
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


def agent_document(row: AgentRow, age_s: float) -> dict[str, Any]:
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
        "alive": is_alive(row, age_s),
        "age_s": _ago(age_s, row.seen_s),
        "status": write(status),
    }


def living_hosts(rows: Iterable[AgentRow], age_s: float) -> dict[str, HostHeartbeat]:
    """Return the heartbeats of the host agents that are alive, by host. `age_s` is the reading of the store's clock."""
    alive = ((row.name, row.heartbeat) for row in rows if is_alive(row, age_s))
    return {name: beat for name, beat in alive if isinstance(beat, HostHeartbeat)}


def connections_document(engine: Engine, now: float) -> dict[str, Any]:
    """Return the TCP connections of programs that are not part of a schedule."""
    beats = living_hosts(all_agents(engine), ages.age_s(engine)).values()
    return {
        "living": living_connections(beats),
        "ended": ended_connections(engine, now),
        "lost": lost_connections(beats),
    }


def sanctions_now(engine: Engine) -> list[dict[str, Any]]:
    """Return the demoted hosts, the earliest first."""
    return [asdict(sanction) for sanction in all_sanctions(engine)]


# ── Other programs' TCP connections, as the agents' flow watch reports them ──────────────────────────────────────────


MOST_LIVING, MOST_ENDED = 50, 20
ENDED_WINDOW_S = 60.0


def living_connections(beats: Iterable[HostHeartbeat]) -> list[dict[str, Any]]:
    """Return the open connections that the living agents report, fastest first."""
    connections = [connection for beat in beats for connection in beat.watch.connections]
    connections.sort(key=lambda connection: (-connection.rate_bps, connection.id))
    return [write(connection) for connection in connections[:MOST_LIVING]]


def ended_connections(engine: Engine, now: float) -> list[Mapping[str, Any]]:
    """Return the watched flows whose record arrived within the last minute, newest first."""
    return newest_flows(engine, now - ENDED_WINDOW_S, WATCHED, MOST_ENDED)


def lost_connections(beats: Iterable[HostHeartbeat]) -> int:
    """Return how many connections the watches of the living agents missed."""
    return sum(beat.watch.lost for beat in beats)
