# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of host agents and port agents. The answer holds the settings to apply."""

from __future__ import annotations

from typing import Any

from flask import Response, jsonify

from sluice.policy.errors import FieldError, visible
from sluice.policy.schema.entries import schema
from sluice.policy.version import VERSION
from sluice.policy.wire.agents import (
    HEARTBEATS,
    MAX_HEARTBEAT_BYTES,
    AgentSettings,
    Heartbeat,
    HostHeartbeat,
    heartbeat_from,
    new_uses,
)
from sluice.store.heartbeats import MOST_AGENTS
from sluice.store.observed import add_event, find_agent
from sluice.webui.access import check_agent, check_connections
from sluice.webui.api import Api, Error, model_of
from sluice.webui.bodies import AgentPath, json_of, read_body
from sluice.webui.errors import ApiError
from sluice.webui.services import services

# ── Models of the heartbeats and the answer ──────────────────────────────────────────────────────────────────────────


class AgentSettingsModel(model_of(AgentSettings)):  # type: ignore[misc]
    """The settings that the current policy needs from an agent. Before the first policy, `host`
    and `ports` are null."""


def heartbeat_schema() -> dict[str, Any]:
    """Return the schema of an agent's heartbeat: one alternative for each kind of agent."""
    return {"oneOf": [_heartbeat_schema(kind, cls) for kind, cls in HEARTBEATS.items()]}


def _heartbeat_schema(kind: str, cls: type[Heartbeat]) -> dict[str, Any]:
    document = schema(cls)
    document["properties"] = {"kind": {"type": "string", "const": kind}, **document["properties"]}
    document["required"] = ["kind", *document["required"]]
    return {"title": kind, **document}


# ── The endpoint ─────────────────────────────────────────────────────────────────────────────────────────────────────


MOST_SHOWN = 64
"""The most characters of an unknown version in a message."""

api = Api("agents", __name__, "Heartbeats of the agents on hosts and ports")


@api.post(
    "/agents/<name>",
    responses={
        200: AgentSettingsModel,
        400: Error,
        401: Error,
        403: Error,
        404: Error,
        409: Error,
        413: Error,
        415: Error,
    },
    body=heartbeat_schema,
)
def heartbeat(path: AgentPath) -> Response:
    """Report an agent's status. The answer holds the settings that the current policy needs from it."""
    beat = services().heartbeats.read(path.name, read_body(MAX_HEARTBEAT_BYTES), _heartbeat)
    check_agent(path.name, beat.KIND)
    if isinstance(beat, HostHeartbeat):
        check_connections(path.name, beat.watch.connections)
    before = _with_foreign_dscps(path.name, beat)
    outcome = services().heartbeats.add(path.name, beat)
    if not outcome.is_kept:
        raise ApiError(
            409,
            "too-many-agents",
            f"{MOST_AGENTS} agents report already, and {path.name} is not one of them; silent agents expire",
            "name",
        )
    if isinstance(beat, HostHeartbeat):
        _note_foreign_dscps(path.name, before, beat)
    return jsonify(services().heartbeats.settings(outcome.policy_version))


def _heartbeat(name: str, body: bytes) -> Heartbeat:
    """Return the heartbeat of a body. Raises ApiError, 422 for an agent whose version does not fit this one."""
    document = json_of(body)
    try:
        return heartbeat_from(document)
    except FieldError as error:
        version = document.get("version") if isinstance(document, dict) else None
        if version in (None, "", VERSION):
            raise
        shown = visible(str(version))[:MOST_SHOWN]
        problem = f"the agent is Sluice {shown}, the web process is {VERSION}, and they do not fit ({error}): upgrade"
        services().refusals.note(name, f"{problem} the older one")
        raise ApiError(422, "other-version", f"{problem} the older one", error.field) from None


def _with_foreign_dscps(name: str, beat: Heartbeat) -> Heartbeat | None:
    """Return the agent's previous heartbeat if this one names foreign DSCPs. Most name none, and cost no query."""
    if not isinstance(beat, HostHeartbeat) or not beat.foreign_dscps:
        return None
    return find_agent(services().engine, name)


def _note_foreign_dscps(name: str, before: Heartbeat | None, beat: HostHeartbeat) -> None:
    """Write an event for DSCPs that others begin to use on a host."""
    known = before.foreign_dscps if isinstance(before, HostHeartbeat) else ()
    if uses := new_uses(known, beat.foreign_dscps):
        add_event(services().engine, "foreign-dscp", host=name, uses=[str(use) for use in uses])
