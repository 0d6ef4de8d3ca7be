# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: the live picture."""

from __future__ import annotations

from flask import Response, request

from sluice.policy.wire.access import READ
from sluice.webui.api import blueprint
from sluice.webui.auth import require_token
from sluice.webui.error_models import Error
from sluice.webui.errors import ApiError
from sluice.webui.event_stream import PLACE, STREAM
from sluice.webui.queries import EventsQuery
from sluice.webui.services import services

api = blueprint("events", __name__, "The live picture, once a second")


@api.get(
    "/events",
    responses={
        200: {
            "description": "a `snapshot` message each second, `event` messages with ids, `trouble` if the store fails",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        429: Error,
    },
)
def events(query: EventsQuery) -> Response:
    """Server-sent events. The header Last-Event-ID, or else `last_event_id`, resumes the stream after that event.

    A token is not needed, but 429 comes earlier without one.
    """
    found = services()
    leave = request.environ.get(PLACE) or found.streams.take(_has_token())
    try:
        stream = found.live.stream(_last_event_id(query), query.count, leave)
    except BaseException:
        leave()
        raise
    request.environ[STREAM] = stream
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(stream, mimetype="text/event-stream", headers=headers)


def _has_token() -> bool:
    """Return whether the request carries the token. A stream needs none, but those without one have fewer places."""
    try:
        require_token(services().token, READ)
    except ApiError:
        return False
    return True


def _last_event_id(query: EventsQuery) -> int | None:
    """Return the last event that the client has. A header that is no number counts as absent."""
    given = request.headers.get("Last-Event-ID", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else query.last_event_id
