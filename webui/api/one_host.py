# SPDX-License-Identifier: Apache-2.0
"""What is known of one host."""

from __future__ import annotations

from flask import Response, jsonify

from sluice.webui.api import blueprint
from sluice.webui.error_models import Error
from sluice.webui.errors import ApiError
from sluice.webui.host_document import host_document
from sluice.webui.host_models import HostAnswer
from sluice.webui.queries import AgentPath, HostQuery
from sluice.webui.services import services

api = blueprint("hosts", __name__, "One host: its agent, its flows, its link")


@api.get("/hosts/<name>", responses={200: HostAnswer, 404: Error})
def host(path: AgentPath, query: HostQuery) -> Response:
    """The agent of a host, its flows under way and ended, round trips, deadlines, and the host's own link."""
    found = host_document(services().engine, path.name, query.window_s)
    if found is None:
        raise ApiError(
            404, "unknown-host", f"neither the network nor an agent knows a host {path.name}", "name"
        )
    return jsonify(found)
