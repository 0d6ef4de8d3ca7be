# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of host agents and port agents. The answer holds the settings to apply."""

from __future__ import annotations

from dataclasses import replace

from flask import Response, jsonify

from policy.agents import MAX_HEARTBEAT_BYTES, NO_SETTINGS, AgentSettings, heartbeat_from
from policy.entries import write
from store.desired import current_policy
from store.observed import put_agent
from webui.api import blueprint
from webui.bodies import read_json
from webui.identity import check_agent, must_renew
from webui.models import AgentSettingsModel, Error
from webui.queries import AgentPath
from webui.request_schemas import heartbeat_schema, request_body
from webui.services import services

api = blueprint("agents", __name__, "Heartbeats of the agents on hosts and ports")


@api.post(
    "/agents/<name>",
    responses={
        200: AgentSettingsModel,
        400: Error,
        401: Error,
        403: Error,
        404: Error,
        413: Error,
        415: Error,
    },
    openapi_extensions=request_body(heartbeat_schema()),
)
def heartbeat(path: AgentPath) -> Response:
    """Report an agent's status. The answer holds the settings that the current policy needs from it."""
    beat = heartbeat_from(read_json(MAX_HEARTBEAT_BYTES))
    engine = services().engine
    check_agent(path.name, beat.KIND)
    put_agent(engine, path.name, beat)
    current = current_policy(engine)
    settings = AgentSettings.of(current.version, current.policy) if current else NO_SETTINGS
    return jsonify(write(replace(settings, renew=must_renew())))
