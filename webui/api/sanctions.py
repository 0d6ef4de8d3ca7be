# SPDX-License-Identifier: Apache-2.0
"""Which hosts are demoted."""

from __future__ import annotations

from flask import Response, jsonify

from webui.api import blueprint
from webui.documents import sanctions_now
from webui.models import SanctionsAnswer
from webui.services import services

api = blueprint("sanctions", __name__, "Hosts that are demoted because their tags were not true")


@api.get("/sanctions", responses={200: SanctionsAnswer})
def sanctions() -> Response:
    """Hosts whose packets are background traffic now; what has passed is in the events."""
    return jsonify(sanctions=sanctions_now(services().engine))
