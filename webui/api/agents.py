# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of host and port agents; the answer tells them what to set."""

from __future__ import annotations

from flask import Response, jsonify

from store.desired import current_policy
from store.observed import put_agent
from webui.api import blueprint
from webui.bodies import read_json
from webui.connections import check_connections
from webui.documents import agent_settings
from webui.errors import ApiError
from webui.models import AgentPath, AgentSettings, Error
from webui.request_schemas import heartbeat_schema, request_body
from webui.services import services

api = blueprint("agents", __name__, "Heartbeats of the agents on hosts and ports")

KINDS = ("host", "port")


@api.post(
    "/agents/<name>",
    responses={200: AgentSettings, 400: Error, 404: Error, 413: Error, 415: Error},
    openapi_extensions=request_body(heartbeat_schema()),
)
def heartbeat(path: AgentPath) -> Response:
    """Say that an agent is alive and how it is; the answer is what the current policy wants of it."""
    body = read_json()
    if not isinstance(body, dict):
        raise ApiError(422, "invalid-field", "send an object with the agent's kind and status")
    kind = body.pop("kind", None)
    if kind not in KINDS:
        raise ApiError(422, "invalid-field", f"must be one of {', '.join(KINDS)}", "kind")
    check_connections(body)
    engine = services().engine
    put_agent(engine, path.name, kind, body)
    current = current_policy(engine)
    return jsonify(agent_settings(current.version, current.policy) if current else agent_settings(0, None))
