# SPDX-License-Identifier: Apache-2.0
"""Flow records: taken from agents, listed, and summarised as completion times and missed deadlines."""

from __future__ import annotations

import time

from flask import Response, jsonify
from werkzeug.exceptions import RequestEntityTooLarge

from sluice.policy.errors import FieldError
from sluice.policy.wire.records import FlowRecord
from sluice.store import ages
from sluice.store.flow_columns import MOST_COLUMNS, FlowColumns
from sluice.store.flow_list import FILTERS, find_flows
from sluice.store.observed import all_agents
from sluice.store.totals import INGESTION_SECONDS, REQUESTS_REFUSED
from sluice.webui import figures
from sluice.webui.active_flows import active_flows
from sluice.webui.api import blueprint
from sluice.webui.bodies import MAX_FLOWS_BODY_BYTES, read_json
from sluice.webui.documents import connections_document, living_hosts
from sluice.webui.error_models import Error
from sluice.webui.errors import ApiError
from sluice.webui.fct_models import DeadlinesAnswer, FctAnswer
from sluice.webui.flow_models import ConnectionsAnswer, FlowsAccepted, FlowsAnswer
from sluice.webui.host_models import ActiveFlowsAnswer
from sluice.webui.identity import own_records, refuse_conflict
from sluice.webui.queries import ActiveFlowsQuery, FiguresQuery, FlowQuery, WindowQuery
from sluice.webui.request_schemas import flows_schema, request_body
from sluice.webui.services import services

api = blueprint("flows", __name__, "Flow records and what follows from them")

MAX_BINS = 5000


@api.post(
    "/flows",
    responses={200: FlowsAccepted, 400: Error, 401: Error, 403: Error, 409: Error, 413: Error, 415: Error},
    openapi_extensions=request_body(flows_schema()),
)
def deliver_flows() -> Response:
    """Store a batch of records: all of them, or none if one is invalid.

    A repeated record changes nothing. One that differs from the stored record of its id is refused with 409;
    the others of its batch are stored.
    """
    began, found = time.monotonic(), services()
    try:
        records = own_records(_records(read_json(MAX_FLOWS_BODY_BYTES, max_depth=None)))
    except (ApiError, RequestEntityTooLarge) as refused:
        status = refused.status if isinstance(refused, ApiError) else 413
        found.tally.count(REQUESTS_REFUSED, status=str(status))
        raise
    added = found.ingestion.add(records)
    found.tally.observe(INGESTION_SECONDS, [time.monotonic() - began])
    if added.conflicts:
        found.tally.count(REQUESTS_REFUSED, status="409")
        raise refuse_conflict(records, added.conflicts)
    return jsonify(accepted=added.new, known=len(records) - added.new)


def _records(body: object) -> list[FlowRecord]:
    if not isinstance(body, list):
        raise ApiError(422, "invalid-field", "the body must be a list of flow records")
    records = []
    for index, document in enumerate(body):
        try:
            records.append(FlowRecord.from_document(document))
        except FieldError as error:
            raise ApiError(422, "invalid-field", error.problem, error.field, index) from None
    return records


@api.get("/flows", responses={200: FlowsAnswer})
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


@api.get("/flows/active", responses={200: ActiveFlowsAnswer})
def list_active_flows(query: ActiveFlowsQuery) -> Response:
    """Flows under way, of schedules and of other programs, as the agents report them each second.

    A heartbeat holds some twenty flows of each kind, so a busy host has more flows than it names.
    """
    engine = services().engine
    beats = living_hosts(all_agents(engine), ages.age_s(engine))
    return jsonify(flows=active_flows(beats, query.host))


@api.get("/connections", responses={200: ConnectionsAnswer})
def list_connections() -> Response:
    """TCP connections that are not part of a schedule: the open ones, and those that ended in the last minute.

    `/flows?source=watched` lists all that have ended.
    """
    return jsonify(connections_document(services().engine, time.time()))


@api.get("/fct", responses={200: FctAnswer})
def fct(query: FiguresQuery) -> Response:
    """Flow completion times in microseconds and slowdowns, by size class and by scheme, and over time."""
    bin_s = _checked_bin_s(query)
    since, until, flows = _covered(query)
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


@api.get("/deadlines", responses={200: DeadlinesAnswer})
def deadlines(query: FiguresQuery) -> Response:
    """How many flows with a deadline missed it, in total and over time."""
    bin_s = _checked_bin_s(query)
    since, until, flows = _covered(query)
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


def _checked_bin_s(query: WindowQuery) -> float | None:
    """Return the width of a bin: the requested one, or wider if the answer would exceed MAX_BINS."""
    return max(query.bin_s, query.window_s / MAX_BINS) if query.bin_s else None
