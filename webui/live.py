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
from sluice.webui import figures
from sluice.webui.access import PLACE, STREAM
from sluice.webui.api import Api, Model, model_of
from sluice.webui.auth import role_of_request
from sluice.webui.figures import RecentFlows
from sluice.webui.flows import (
    ConnectionsAnswer,
    DeadlineSeriesModel,
    DeadlineTotalsModel,
    DistributionsModel,
    FctSeriesModel,
    connections_document,
)
from sluice.webui.network import AgentModel, HealthModel, health_document
from sluice.webui.policies import PolicyVersionModel, current_policy_document
from sluice.webui.ports import (
    PortLoadModel,
    SanctionModel,
    ThresholdModel,
    ports_now,
    sanctions_now,
    thresholds_now,
)
from sluice.webui.problems import validity_document
from sluice.webui.services import services


class LiveWatchModel(model_of(WatchStatus)):  # type: ignore[misc]
    """The status of a flow watch without its connections."""


class LiveHostStatusModel(Model):
    spool_depth: int = Field(description="flow records that wait for delivery")
    watch: LiveWatchModel


class LiveHostAgentModel(AgentModel):
    kind: Literal["host"]
    status: LiveHostStatusModel


class LiveAgentModel(AgentModel):
    kind: Literal["port", "simulator"]
    status: dict[str, Any] = Field(description="empty")


class LiveHealthModel(HealthModel):
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
    classes: DistributionsModel
    slowdown: DistributionsModel
    bin_s: float
    series: FctSeriesModel


class LiveDeadlinesModel(DeadlineTotalsModel):
    bin_s: float
    series: DeadlineSeriesModel


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
    policy: PolicyVersionModel | None
    thresholds: dict[str, ThresholdModel]
    ports: dict[str, PortLoadModel]
    connections: ConnectionsAnswer
    sanctions: list[SanctionModel]
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
    flows = recent.since(now - SNAPSHOT_WINDOW_S)
    health = health_document(engine, now, topology, agents)
    ports = ports_now(engine, now, topology)
    shown = [agent | {"status": _only(agent["status"], _AGENT_STATUS)} for agent in health["agents"]]
    chosen = {choice: flows.of_traffic(choice) for choice in TRAFFIC}
    everything = _traffic(flows, now)  # computed once for all choices with the same flows
    return {
        "at": now,
        "health": health | {"agents": shown},
        "policy": current_policy_document(engine),
        "thresholds": thresholds_now(engine),
        "ports": {port: _only(row, row.keys() - _LEFT_OUT) for port, row in ports.items()},
        "connections": connections_document(engine, now, agents),
        "sanctions": sanctions_now(engine),
        "traffic": {
            choice: everything if part is flows else _traffic(part, now) for choice, part in chosen.items()
        },
        "validity": validity_document(engine, agents),
    }


def _only(document: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in keys}


def _traffic(flows: FlowColumns, now: float) -> dict[str, Any]:
    """Return the live figures of these flows."""
    tail = now - SNAPSHOT_TAIL_S
    return {
        "fct": {
            "window_s": SNAPSHOT_WINDOW_S,
            "flows_per_s": round(len(flows) / SNAPSHOT_WINDOW_S, 2),
            "classes": figures.fct_by_class(flows),
            "slowdown": figures.slowdown_by_class(flows),
            "bin_s": SNAPSHOT_BIN_S,
            "series": figures.fct_series(flows, tail, now, SNAPSHOT_BIN_S),
        },
        "deadlines": {
            **figures.deadline_totals(flows),
            "bin_s": SNAPSHOT_BIN_S,
            "series": figures.deadline_series(flows, tail, now, SNAPSHOT_BIN_S),
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
