# SPDX-License-Identifier: Apache-2.0
"""What requests may hold: JSON bodies, whose size is limited before reading and whose syntax is stricter than Python's
parser, and the parameters that several subjects share.

The policy package itself checks the documents, with the code that checks scenarios. JSON schemas describe to clients
what it accepts. Rules that JSON Schema cannot express (thresholds must increase) are in the descriptions.
"""

import json
import math
import re
from collections import Counter
from typing import Annotated, Any

from flask import request
from pydantic import Field
from werkzeug.exceptions import RequestEntityTooLarge

from sluice.policy.errors import guess, shortened
from sluice.policy.network.graph import Topology
from sluice.policy.schema import entries
from sluice.webui.api import ApiError, Model

MAX_BODY_BYTES = 1_000_000
MAX_FLOWS_BODY_BYTES = 8_000_000
MAX_DEPTH = 16

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(limit_bytes: int = MAX_BODY_BYTES, max_depth: int | None = MAX_DEPTH) -> Any:
    """Return the request's JSON body.

    Raises ApiError 415 for another content type, ApiError 400 for malformed JSON, and werkzeug's
    413 if the body is longer than `limit_bytes`. `max_depth` None sets no limit to nesting; the
    caller then accepts flat documents only.
    """
    return json_of(read_body(limit_bytes), max_depth)


def json_of(body: bytes, max_depth: int | None = MAX_DEPTH) -> Any:
    """Return a body's JSON value. Raises ApiError 400 as `read_json` does."""
    value = parse_json(body)
    if max_depth is not None and _deeper_than(value, max_depth):
        raise ApiError(400, "malformed-json", f"the body is nested more than {max_depth} levels deep")
    return value


def read_body(limit_bytes: int) -> bytes:
    """Return the request's body if it may be JSON. Raises ApiError 415 and werkzeug's 413 as `read_json` does."""
    if request.mimetype != "application/json":
        raise ApiError(415, "unsupported-media-type", "send the body as application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise ApiError(415, "unsupported-media-type", "send the body without a content encoding")
    # Werkzeug cuts a streamed body at the limit and reports nothing. A limit of one byte more
    # shows that it was too long.
    request.max_content_length = limit_bytes + 1
    raw = request.get_data(cache=False)
    if len(raw) > limit_bytes:
        raise RequestEntityTooLarge()
    return raw


def parse_json(raw: bytes) -> Any:
    """Return JSON text as a value.

    ApiError 400 unless it is UTF-8 with finite numbers, no lone surrogates, and no key twice in an object.
    """
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise ApiError(400, "malformed-json", "the body is not Unicode text in UTF-8") from None
    except RecursionError:
        raise ApiError(400, "malformed-json", "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, "malformed-json", f"the body is not JSON: {error}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. A key that comes twice is refused: another reader of the body may take the other value."""
    entry_of = dict(pairs)
    if len(entry_of) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {shortened(twice)} twice")
    return entry_of


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float | int:
    """Return a number. 3.0 counts as a whole number, as in JSON Schema."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number exceeds the range of a double")
    return int(value) if value.is_integer() else value


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner = (node for node in level if isinstance(node, dict | list))
        level = [child for node in inner for child in (node.values() if isinstance(node, dict) else node)]
        if not level:
            return False
    return True


EPOCH_MAX_S = 1e11
Since = Annotated[float, Field(ge=0, le=EPOCH_MAX_S, allow_inf_nan=False)]
PortId = Annotated[str, Field(pattern=f"^{entries.PORT.pattern}$")]


class AgentPath(Model):
    name: str = Field(pattern=f"^{entries.AGENT.pattern}$")


class PortPath(Model):
    port: PortId


def check_port(topology: Topology | None, port_id: str) -> None:
    """Raise ApiError 404 unless the network has this port."""
    ports = topology.port_by_id if topology else {}
    if port_id not in ports:
        why = (
            f"the network has no port {port_id}{guess(port_id, ports)}"
            if ports
            else "there is no network yet"
        )
        raise ApiError(404, "no-such-port", why, "port")
