# SPDX-License-Identifier: Apache-2.0
"""The live picture as server-sent events, and the models of the messages."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Literal

from flask import Response, request
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.figures.validity import Flaw
from sluice.policy.wire.agents import WatchStatus
from sluice.policy.wire.records import TRAFFIC
from sluice.store.desired import current_topology
from sluice.store.flow_queries import FlowColumns
from sluice.store.observed import all_agents
from sluice.webui import figures, flows, network, policies, problems
from sluice.webui import ports as port_documents
from sluice.webui.access import PLACE, STREAM
from sluice.webui.api import Api, Model, model_of
from sluice.webui.auth import role_of_request
from sluice.webui.figures import RecentFlows
from sluice.webui.services import services


class LiveWatchModel(model_of(WatchStatus)):  # type: ignore[misc]
    """The status of a flow watch without its connections."""


class LiveHostStatusModel(Model):
    spool_depth: int = Field(description="flow records that wait for delivery")
    watch: LiveWatchModel


class LiveHostAgentModel(network.AgentModel):
    kind: Literal["host"]
    status: LiveHostStatusModel


class LiveAgentModel(network.AgentModel):
    kind: Literal["port", "simulator"]
    status: dict[str, Any] = Field(description="empty")


class LiveHealthModel(network.HealthModel):
    agents: list[LiveHostAgentModel | LiveAgentModel]


class FlawModel(model_of(Flaw, kind=Literal["forwarded", "late", "lost", "clock"])):  # type: ignore[misc]
    """Why the figures show the machine and not the network."""


class ValidityModel(Model):
    valid: bool | None = Field(description="null if nothing judges the network")
    reasons: list[FlawModel]
    note: str = Field(description="why nothing judges it; empty if something does")


class LiveFctModel(Model):
    window_s: float
    flows_per_s: float
    classes: flows.DistributionsModel
    slowdown: flows.DistributionsModel
    bin_s: float
    series: flows.FctSeriesModel


class LiveDeadlinesModel(flows.DeadlineTotalsModel):
    bin_s: float
    series: flows.DeadlineSeriesModel


class TrafficModel(Model):
    fct: LiveFctModel
    deadlines: LiveDeadlinesModel


class TrafficBySourceModel(Model):
    scheduled: TrafficModel
    watched: TrafficModel
    all: TrafficModel


class SnapshotModel(Model):
    """The data of a `snapshot` message, once a second."""

    at: float
    health: LiveHealthModel
    policy: policies.PolicyVersionModel | None
    thresholds: dict[str, port_documents.ThresholdModel]
    ports: dict[str, port_documents.PortLoadModel]
    connections: flows.ConnectionsAnswer
    sanctions: list[port_documents.SanctionModel]
    traffic: TrafficBySourceModel
    validity: ValidityModel


class EventModel(Model):
    """The data of an `event` message."""

    id: int
    at: float
    kind: str
    document: dict[str, Any] = Field(description="its keys depend on the kind")


class EventsQuery(Model):
    count: int | None = Field(
        None, ge=1, le=1_000_000, description="end the stream after this many snapshots"
    )
    last_event_id: int | None = Field(
        None, ge=0, lt=10**15, description="resume after this event, as the header Last-Event-ID does"
    )


SNAPSHOT_WINDOW_S = 30.0
SNAPSHOT_BIN_S = 2.0
SNAPSHOT_TAIL_S = 12.0
_LEFT_OUT = frozenset(("queue_bytes", "queue_packets"))
_AGENT_STATUS = frozenset(("spool_depth", "watch"))


def snapshot(engine: Engine, recent: RecentFlows) -> dict[str, Any]:
    """Return the live picture, which every dashboard gets each second.

    `traffic` has the figures of scheduled flows, of watched flows and of both, over the last
    SNAPSHOT_WINDOW_S. Their `series` hold the last bins, each SNAPSHOT_BIN_S wide. A page that has
    fetched the history continues it with these bins. A port comes without its counters, an agent with a part of its
    status: /ports and /health have the rest.
    """
    now = time.time()
    topology, agents = current_topology(engine), all_agents(engine)
    finished = recent.since(now - SNAPSHOT_WINDOW_S)
    health = network.health_document(engine, now, topology, agents)
    ports = port_documents.ports_now(engine, now, topology)
    shown = [agent | {"status": _only(agent["status"], _AGENT_STATUS)} for agent in health["agents"]]
    chosen = {choice: finished.of_traffic(choice) for choice in TRAFFIC}
    everything = _traffic(finished, now)  # computed once for all choices with the same flows
    return {
        "at": now,
        "health": health | {"agents": shown},
        "policy": policies.current_policy_document(engine),
        "thresholds": port_documents.thresholds_now(engine),
        "ports": {port: _only(row, row.keys() - _LEFT_OUT) for port, row in ports.items()},
        "connections": flows.connections_document(engine, now, topology, agents),
        "sanctions": port_documents.sanctions_now(engine),
        "traffic": {
            choice: everything if part is finished else _traffic(part, now) for choice, part in chosen.items()
        },
        "validity": problems.validity_document(engine, agents),
    }


def _only(document: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in keys}


def _traffic(columns: FlowColumns, now: float) -> dict[str, Any]:
    """Return the live figures of these flows."""
    tail = now - SNAPSHOT_TAIL_S
    return {
        "fct": {
            "window_s": SNAPSHOT_WINDOW_S,
            "flows_per_s": round(len(columns) / SNAPSHOT_WINDOW_S, 2),
            "classes": figures.fct_by_class(columns),
            "slowdown": figures.slowdown_by_class(columns),
            "bin_s": SNAPSHOT_BIN_S,
            "series": figures.fct_series(columns, tail, now, SNAPSHOT_BIN_S),
        },
        "deadlines": {
            **figures.deadline_totals(columns),
            "bin_s": SNAPSHOT_BIN_S,
            "series": figures.deadline_series(columns, tail, now, SNAPSHOT_BIN_S),
        },
    }


api = Api("events", __name__, "The live picture, once a second", messages=(SnapshotModel, EventModel))


@api.get(
    "/events",
    answers={
        200: {
            "description": "a `snapshot` message each second, `event` messages with ids, `trouble` if the store fails",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
    errors=[429],
)
def events(query: EventsQuery) -> Response:
    """Server-sent events. The header Last-Event-ID, or else `last_event_id`, resumes the stream after that event.

    A token is not needed, but 429 comes earlier without one.
    """
    shared = services()
    leave = request.environ.get(PLACE) or shared.streams.take(role_of_request() is not None)
    header = request.headers.get("Last-Event-ID", "")
    is_number = header.isascii() and header.isdigit() and len(header) < 16  # another header counts as absent
    try:
        stream = shared.live.stream(int(header) if is_number else query.last_event_id, query.count, leave)
    except BaseException:
        leave()
        raise
    request.environ[STREAM] = stream
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(stream, mimetype="text/event-stream", headers=headers)
