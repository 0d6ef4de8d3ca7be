# SPDX-License-Identifier: Apache-2.0
"""What agents send: heartbeats, whose answer holds the settings to apply, and the records of ended flows."""

import time
from itertools import product
from typing import Any

from flask import Response, jsonify
from pydantic import Field
from werkzeug.exceptions import RequestEntityTooLarge

from sluice.policy.errors import FieldError, visible
from sluice.policy.schema.entries import schema
from sluice.policy.version import VERSION
from sluice.policy.wire import agents as wire
from sluice.policy.wire.records import (
    BACKGROUND,
    FINISHED,
    NEEDED_IF_SCHEDULED,
    SCHEDULED,
    UNFINISHED,
    WATCHED,
    FlowRecord,
)
from sluice.store.ages import age_s
from sluice.store.observed import add_event, find_agent
from sluice.store.totals import INGESTION_SECONDS, REQUESTS_REFUSED
from sluice.webui.access import check_agent, check_connections, own_records, refuse_conflict
from sluice.webui.api import MAX_FLOWS_BODY_BYTES, AgentPath, Api, ApiError, Model, model_of, read_json
from sluice.webui.flows import api as flows
from sluice.webui.services import services


class AgentSettingsModel(model_of(wire.AgentSettings)):  # type: ignore[misc]
    """The settings that the current policy needs from an agent. Before the first policy, `host`
    and `ports` are null."""

    answered_s: float | None = Field(
        None,
        description="Reading of the store's clock at the answer. It is there for agents that send it back.",
    )


def heartbeat_schema() -> dict[str, Any]:
    """Return the schema of an agent's heartbeat: one alternative for each kind of agent."""
    kinds = []
    for kind, cls in wire.HEARTBEATS.items():
        document = schema(cls)
        document["properties"] = {"kind": {"type": "string", "const": kind}, **document["properties"]}
        document["required"] = ["kind", *document["required"]]
        kinds.append({"title": kind, **document})
    return {"oneOf": kinds}


class FlowsAccepted(Model):
    accepted: int = Field(ge=0, description="number of new records")
    known: int = Field(ge=0, description="number of records that had been delivered before")


def _flow(finished: bool, deadline: bool, watched: bool) -> dict[str, Any]:
    """Return the schema of one kind of flow record. Its types express what
    FlowRecord.from_document checks between fields."""
    document = schema(FlowRecord)
    properties, required = document["properties"], set(document["required"])
    properties["status"] = {"type": "string", "const": FINISHED if finished else UNFINISHED}
    properties["source"] = {"type": "string", "enum": [WATCHED, BACKGROUND] if watched else [SCHEDULED]}
    has_value = {"fct_us": finished, "deadline_us": deadline, "met": deadline}
    has_value |= {} if watched else dict.fromkeys(NEEDED_IF_SCHEDULED, True)
    for name, is_set in has_value.items():
        properties[name] = properties[name]["anyOf"][0] if is_set else {"type": "null"}
        required |= {name} if is_set else set()
    required |= {"source"} if watched else set()
    title = f"{'watched, ' if watched else ''}{'finished' if finished else 'unfinished'}"
    return {
        **document,
        "title": f"{title}, {'with' if deadline else 'without'} deadline",
        "required": sorted(required),
    }


def flows_schema() -> dict[str, Any]:
    """Return the schema of a batch of flow records."""
    kinds = [_flow(*kind) for kind in product((True, False), (False, True), (False, True))]
    return {"type": "array", "items": {"anyOf": kinds}}


MOST_SHOWN = 64
"""The most characters of an unknown version in a message."""

api = Api("agents", __name__, "Heartbeats of the agents on hosts and ports")


@api.post("/agents/<name>", answers=AgentSettingsModel, errors=[401, 403, 404, 409], body=heartbeat_schema)
def heartbeat(path: AgentPath) -> Response:
    """Report an agent's status. The answer holds the settings that the current policy needs from it."""
    beat = _heartbeat(path.name, read_json(wire.MAX_HEARTBEAT_BYTES))
    check_agent(path.name, beat.KIND)
    before = None
    if isinstance(beat, wire.HostHeartbeat):
        check_connections(path.name, beat.watch.connections)
        if beat.foreign_dscps:  # most heartbeats name none, and cost no query
            before = find_agent(services().engine, path.name)
    heartbeats = services().heartbeats
    outcome = heartbeats.add(path.name, beat)
    if not outcome.is_kept:
        raise ApiError(
            409,
            "too-many-agents",
            f"{heartbeats.most} agents report already, and {path.name} is not one of them; silent agents expire, and"
            " the setting most_agents allows more",
            "name",
        )
    if isinstance(beat, wire.HostHeartbeat):
        earlier = before.foreign_dscps if isinstance(before, wire.HostHeartbeat) else ()
        if uses := wire.new_uses(earlier, beat.foreign_dscps):
            add_event(services().engine, "foreign-dscp", host=path.name, uses=[str(use) for use in uses])
    settings = heartbeats.settings(path.name, outcome.policy_version)
    if isinstance(beat, wire.PortHeartbeat) and beat.tags:
        settings = {**settings, "queues": heartbeats.queues(beat.tags)}
    if isinstance(beat, wire.HostHeartbeat) and beat.answered_s is not None:
        settings = {**settings, "answered_s": age_s(services().engine)}
    return jsonify(settings)


def _heartbeat(name: str, document: Any) -> wire.Heartbeat:
    """Return the heartbeat of a body. Raises ApiError, 422 for an agent whose version does not fit this one."""
    try:
        return wire.heartbeat_from(document)
    except FieldError as error:
        version = document.get("version") if isinstance(document, dict) else None
        if version in (None, "", VERSION):
            raise
        shown = visible(str(version))[:MOST_SHOWN]
        problem = f"the agent is Sluice {shown}, the web process is {VERSION}, and they do not fit ({error}): upgrade"
        services().refusals.note(name, f"{problem} the older one")
        raise ApiError(422, "other-version", f"{problem} the older one", error.field) from None


@flows.post("/flows", answers=FlowsAccepted, errors=[401, 403, 409], body=flows_schema)
def deliver_flows() -> Response:
    """Store a batch of records: all of them, or none if one is invalid.

    A repeated record changes nothing. One that differs from the stored record of its id is refused with 409;
    the others of its batch are stored.
    """
    began, shared = time.monotonic(), services()
    try:
        records = own_records(_records(read_json(MAX_FLOWS_BODY_BYTES, max_depth=None)))
    except (ApiError, RequestEntityTooLarge) as refused:
        status = refused.status if isinstance(refused, ApiError) else 413
        shared.tally.count(REQUESTS_REFUSED, status=str(status))
        raise
    added = shared.ingestion.add(records)
    shared.tally.observe(INGESTION_SECONDS, [time.monotonic() - began])
    if added.conflicts:
        shared.tally.count(REQUESTS_REFUSED, status="409")
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
