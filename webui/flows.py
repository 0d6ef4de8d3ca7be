# SPDX-License-Identifier: Apache-2.0
"""Flows: records taken from agents and listed, flows under way, completion times, missed deadlines, size classes."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from flask import Response, jsonify
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.network.graph import Topology
from sluice.policy.schema import entries
from sluice.policy.schema.entries import write
from sluice.policy.wire import records
from sluice.policy.wire.agents import HostHeartbeat, LivingConnection, RunningFlow
from sluice.store.desired import current_topology
from sluice.store.flow_queries import FILTERS, MOST_COLUMNS, FlowColumns, class_sizes, find_flows
from sluice.store.flows import newest_flows
from sluice.store.observed import AgentRow, all_agents
from sluice.webui import figures
from sluice.webui.api import Api, Model, Since, model_of
from sluice.webui.ingestion import names_of_addresses
from sluice.webui.services import services


class FlowModel(model_of(records.FlowRecord)):  # type: ignore[misc]
    """A flow record, its place in the order of reception, and the time of reception."""

    sequence: int
    received_at: float


class FlowsAnswer(Model):
    flows: list[FlowModel]
    next: int | None = Field(description="`before` of the following page; null if there are no older records")
    searched_to: float | None = Field(
        description="when the oldest record that this page looked at arrived; null if it looked at none"
    )


class LivingConnectionModel(model_of(LivingConnection)):  # type: ignore[misc]
    """An open TCP connection of any program."""


class ConnectionsAnswer(Model):
    living: list[LivingConnectionModel] = Field(description="open connections, fastest first")
    ended: list[FlowModel] = Field(
        description="connections whose record arrived within the last minute, newest first"
    )
    lost: int = Field(description="connections that the hosts' watches missed")


Endpoint = Annotated[str, Field(pattern=f"^{entries.ENDPOINT.pattern}$")]
Source = Literal["scheduled", "watched", "all"]


class FiguresQuery(Model):
    window_s: float = Field(
        60, ge=1, le=86_400, allow_inf_nan=False, description="length of the window in seconds"
    )
    until: Since | None = Field(
        None, description="end of the window, in seconds since the epoch; by default now"
    )
    bin_s: float | None = Field(
        None,
        ge=0.1,
        le=3600,
        allow_inf_nan=False,
        description="also return a time series with bins of this many seconds",
    )
    source: Source = Field(
        "scheduled", description="flows of a run's schedule, connections of other programs, or both"
    )


class FlowQuery(Model):
    limit: int = Field(100, ge=1, le=1000)
    before: int | None = Field(None, ge=0, le=2**53, description="the value of `next` in the previous page")
    scheme: str | None = Field(None, pattern=f"^{entries.SCHEME.pattern}$")
    size_class: Literal["small", "medium", "large"] | None = None
    status: Literal["finished", "unfinished"] | None = None
    src: Endpoint | None = None
    dst: Endpoint | None = None
    host: Endpoint | None = Field(None, description="only flows from or to it")
    label: str | None = Field(
        None,
        max_length=records.MAX_LABEL,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="only flows with this label in their scenario, or of this container",
    )
    source: Literal["scheduled", "watched", "background"] | None = Field(
        None,
        description="only flows of a run's schedule, its endless flows, or connections of other programs",
    )
    met: Literal["true", "false"] | None = Field(
        None, description="only flows that met their deadline, or that missed it"
    )


class ActiveFlowsQuery(Model):
    host: Endpoint | None = Field(None, description="only flows from or to it")


class DistributionModel(Model):
    n: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class SeriesModel(Model):
    n: list[int]
    mean: list[float | None]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


class DistributionsModel(Model):
    """Of all flows, and by size class."""

    all: DistributionModel
    small: DistributionModel
    medium: DistributionModel
    large: DistributionModel


class FctSeriesModel(Model):
    at: list[float] = Field(description="starts of the bins")
    all: SeriesModel
    small: SeriesModel
    medium: SeriesModel
    large: SeriesModel


_WINDOW = (
    "length of the window in seconds; shorter than requested if it held more flows than the server evaluates"
)


class FctAnswer(Model):
    window_s: float = Field(description=_WINDOW)
    source: Source
    flows_per_s: float
    classes: DistributionsModel = Field(description="microseconds")
    slowdown: DistributionsModel = Field(description="FCT over ideal FCT, of the flows whose path is known")
    schemes: dict[str, DistributionsModel]
    bin_s: float | None
    series: FctSeriesModel | None


class DeadlineSeriesModel(Model):
    at: list[float] = Field(description="starts of the bins")
    n: list[int]
    missed: list[int]
    miss_ratio: list[float | None]


class DeadlineTotalsModel(Model):
    n: int
    missed: int
    miss_ratio: float | None


class DeadlinesAnswer(DeadlineTotalsModel):
    window_s: float = Field(description=_WINDOW)
    source: Source
    bin_s: float | None
    series: DeadlineSeriesModel | None


class ActiveFlowModel(model_of(RunningFlow)):  # type: ignore[misc]
    """A flow of a schedule or of another program that is under way."""

    source: Literal["scheduled", "watched"]
    src: str
    src_port: int | None = Field(description="null for a scheduled flow")
    dst_port: int | None = Field(description="null for a scheduled flow")
    bytes: int | None = Field(
        description="of a scheduled flow its size, null if it is endless; of another one what it has sent so far"
    )
    rate_bps: int | None = Field(description="over about the last second; null for a scheduled flow")


class ActiveFlowsAnswer(Model):
    flows: list[ActiveFlowModel] = Field(description="the newest first")


MOST_ACTIVE = 200
"""The most flows of an answer."""


def living_hosts(agents: Iterable[AgentRow]) -> dict[str, HostHeartbeat]:
    """Return the heartbeats of the host agents that are alive, by host."""
    alive = ((row.name, row.heartbeat) for row in agents if row.is_alive)
    return {name: beat for name, beat in alive if isinstance(beat, HostHeartbeat)}


def open_connections(beats: Mapping[str, HostHeartbeat], topology: Topology | None) -> list[LivingConnection]:
    """Return the open connections that these agents report, with the names of hosts for addresses.

    What a receiver reports is left out if an agent of the sender's host reports it, too, as in Ingestion.
    """
    watching = {name: beat.watch.addresses for name, beat in beats.items() if beat.watch.watching}
    names = names_of_addresses(topology, watching)
    found = (
        replace(one, src=names.get(one.src, one.src), dst=names.get(one.dst, one.dst))
        for beat in beats.values()
        for one in beat.watch.connections
    )
    return [one for one in found if one.retransmissions is not None or one.src not in watching]


def active_flows(
    beats: Mapping[str, HostHeartbeat], topology: Topology | None, host: str | None = None
) -> list[dict[str, Any]]:
    """Return the flows that these agents report, the newest first; with `host`, those from or to it.

    `beats` are the heartbeats of living agents by their host.
    """
    flows: list[dict[str, Any]] = []
    for src, beat in beats.items():
        # A heartbeat names no ports and no rate of a flow of a schedule.
        ends = {"src": src, "src_port": None, "dst_port": None}
        for flow in beat.running:
            flows.append({"source": records.SCHEDULED, **ends, **write(flow), "rate_bps": None})
    # What a program's connection will send is unknown, and so is what has been acknowledged.
    for connection in open_connections(beats, topology):
        flows.append({"source": records.WATCHED, **write(connection), "acked_bytes": None})
    chosen = [flow for flow in flows if host is None or host in (flow["src"], flow["dst"])]
    chosen.sort(key=lambda flow: (-flow["started_at"], flow["id"]))
    return chosen[:MOST_ACTIVE]


MOST_LIVING, MOST_ENDED = 50, 20
ENDED_WINDOW_S = 60.0


def connections_document(
    engine: Engine, now: float, topology: Topology | None, agents: Iterable[AgentRow]
) -> dict[str, Any]:
    """Return the TCP connections of programs that are not part of a schedule, as the agents' flow watch reports them.

    The open ones of living agents are the fastest first, and those that ended within the last minute the newest first.
    """
    beats = living_hosts(agents)
    living = open_connections(beats, topology)
    living.sort(key=lambda connection: (-connection.rate_bps, connection.id))
    return {
        "living": [write(connection) for connection in living[:MOST_LIVING]],
        "ended": newest_flows(engine, now - ENDED_WINDOW_S, records.WATCHED, MOST_ENDED),
        "lost": sum(beat.watch.lost for beat in beats.values()),
    }


api = Api("flows", __name__, "Flow records and what follows from them")

MAX_BINS = 5000
"""The bins are wider than requested if there would be more."""


@api.get("/flows", answers=FlowsAnswer)
def list_flows(query: FlowQuery) -> Response:
    """Records, newest first. `next` is the `before` of the following page.

    A page looks at a limited number of records, so it may have fewer rows than `limit` although older ones match.
    `next` is null only if there are no older records.
    """
    asked = query.model_dump(exclude_none=True)
    matching = {name: asked[name] for name in FILTERS if name in asked}
    if query.met is not None:
        matching["met"] = query.met == "true"
    page = find_flows(services().engine, matching, query.before, query.limit)
    return jsonify(flows=page.rows, next=page.next, searched_to=page.searched_to)


@api.get("/flows/active", answers=ActiveFlowsAnswer)
def list_active_flows(query: ActiveFlowsQuery) -> Response:
    """Flows under way, of schedules and of other programs, as the agents report them each second.

    A heartbeat holds some twenty flows of each kind, so a busy host has more flows than it names.
    """
    engine = services().engine
    return jsonify(flows=active_flows(living_hosts(all_agents(engine)), current_topology(engine), query.host))


@api.get("/connections", answers=ConnectionsAnswer)
def list_connections() -> Response:
    """TCP connections that are not part of a schedule: the open ones, and those that ended in the last minute.

    `/flows?source=watched` lists all that have ended.
    """
    engine = services().engine
    return jsonify(connections_document(engine, time.time(), current_topology(engine), all_agents(engine)))


@api.get("/fct", answers=FctAnswer)
def fct(query: FiguresQuery) -> Response:
    """Flow completion times in microseconds and slowdowns, by size class and by scheme, and over time."""
    since, until, flows = _covered(query)
    bin_s = max(query.bin_s, query.window_s / MAX_BINS) if query.bin_s else None
    return jsonify(
        window_s=round(until - since, 3),
        source=query.source,
        flows_per_s=len(flows) / (until - since) if until > since else 0.0,
        classes=figures.fct_by_class(flows),
        slowdown=figures.slowdown_by_class(flows),
        schemes=figures.fct_by_scheme(flows),
        bin_s=bin_s,
        series=figures.fct_series(flows, since, until, bin_s) if bin_s else None,
    )


@api.get("/deadlines", answers=DeadlinesAnswer)
def deadlines(query: FiguresQuery) -> Response:
    """How many flows with a deadline missed it, in total and over time."""
    since, until, flows = _covered(query)
    bin_s = max(query.bin_s, query.window_s / MAX_BINS) if query.bin_s else None
    return jsonify(
        window_s=round(until - since, 3),
        source=query.source,
        **figures.deadline_totals(flows),
        bin_s=bin_s,
        series=figures.deadline_series(flows, since, until, bin_s) if bin_s else None,
    )


def _covered(query: FiguresQuery) -> tuple[float, float, FlowColumns]:
    """Return (start, end, flows): the source's flows that finished in the window.

    It starts later than requested if more than MOST_COLUMNS flows finished after its start.
    """
    now = time.time()
    until = now if query.until is None else min(query.until, now)
    since = until - query.window_s
    flows = services().recent.since(since, until)
    start = float(flows.at.min()) if len(flows) >= MOST_COLUMNS else since
    return start, until, flows.of_traffic(query.source)


classes_api = Api("classes", __name__, "What small, medium and large mean")


class ClassesQuery(Model):
    source: Source = Field("all", description="whose flows `seen` is about")


class ClassSeenModel(Model):
    n: int = Field(description="number of flows")
    least_bytes: int
    most_bytes: int


class ClassesSeenModel(Model):
    small: ClassSeenModel | None
    medium: ClassSeenModel | None
    large: ClassSeenModel | None


class ClassesAnswer(Model):
    limits_bytes: list[int] = Field(
        description="largest small flow and largest medium flow; the `scale` of a workload scales both"
    )
    seen: ClassesSeenModel = Field(
        description="the sizes of the newest 10,000 flows by class; null if there is none"
    )


@classes_api.get("/classes", answers=ClassesAnswer)
def classes(query: ClassesQuery) -> Response:
    """What small, medium and large mean: the limits, and the sizes of the flows that have the class."""
    seen = class_sizes(services().engine, query.source)
    return jsonify(
        limits_bytes=[records.SMALL_LIMIT_BYTES, records.MEDIUM_LIMIT_BYTES],
        seen={name: asdict(seen[name]) if name in seen else None for name in records.SIZE_CLASSES},
    )
