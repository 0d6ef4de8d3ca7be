# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: the live picture."""

from __future__ import annotations

from flask import Response, request

from webui.api import blueprint
from webui.queries import EventsQuery
from webui.services import services

api = blueprint("events", __name__, "The live picture, once a second")


@api.get(
    "/events",
    responses={
        200: {
            "description": "a `snapshot` message each second, `event` messages with ids, `trouble` if the store fails",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
def events(query: EventsQuery) -> Response:
    """Server-sent events. The header Last-Event-ID resumes the stream after that event."""
    frames = services().live.stream(_last_event_id(), query.count)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(frames, mimetype="text/event-stream", headers=headers)


def _last_event_id() -> int | None:
    """Return the header as a number. Any other text is not from this server and counts as absent."""
    given = request.headers.get("Last-Event-ID", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None
