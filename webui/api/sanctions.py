# SPDX-License-Identifier: Apache-2.0
"""The hosts that are demoted."""

from __future__ import annotations

from flask import Response, jsonify

from sluice.webui.api import blueprint
from sluice.webui.documents import sanctions_now
from sluice.webui.port_models import SanctionsAnswer
from sluice.webui.services import services

api = blueprint("sanctions", __name__, "Hosts that are demoted because they sent wrong tags")


@api.get("/sanctions", responses={200: SanctionsAnswer})
def sanctions() -> Response:
    """Hosts whose packets count as background traffic now. The events hold past demotions."""
    return jsonify(sanctions=sanctions_now(services().engine))
