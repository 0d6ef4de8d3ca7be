# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the request bodies, for the OpenAPI document.

Bodies are validated by the policy package itself, the same code that validates scenarios; these schemas say to
clients what it accepts. What JSON Schema cannot say (thresholds must increase) is in the descriptions.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from policy.agents import HEARTBEATS, Heartbeat
from policy.entries import schema
from policy.fields import scheme_schema
from policy.records import BACKGROUND, FINISHED, SCHEDULED, SIZE_CLASSES, UNFINISHED, WATCHED
from policy.schemes import SCHEMES

_NAME = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,64}$"}
_SCHEME = {"type": "string", "pattern": r"^[A-Za-z0-9._+-]{1,64}$"}
_ENDPOINT = {"type": "string", "pattern": r"^[A-Za-z0-9._:-]{1,64}$"}
_NULL = {"type": "null"}


def request_body(schema: dict[str, Any]) -> dict[str, Any]:
    """An operation's `requestBody` for flask-openapi3."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _whole(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null stands for the scheme's default."""
    return {"anyOf": [schema, _NULL]}


def policy_schema() -> dict[str, Any]:
    """A policy document: one alternative for each scheme that switches can carry out."""
    schemes = [scheme for scheme in SCHEMES.values() if not scheme.simulator_only]
    return {
        "oneOf": [{"title": scheme.name, **scheme_schema(scheme)} for scheme in schemes],
        "discriminator": {"propertyName": "scheme"},
    }


def _flow(finished: bool, deadline: bool, watched: bool) -> dict[str, Any]:
    time_us = {"type": "number", "minimum": 0, "maximum": 10**12}
    ideal_us = {"type": "number", "minimum": 0.001, "maximum": 10**12}
    port = _or_null(_whole(1, 65_535))
    properties = {
        "id": {"type": "string", "pattern": r"^[A-Za-z0-9._:/-]{1,96}$"},
        "src": _ENDPOINT,
        "dst": _ENDPOINT,
        "bytes": _whole(1, 10**13),
        "size_class": {"type": "string", "enum": list(SIZE_CLASSES)},
        "started_at": {"type": "number", "minimum": 0, "maximum": 10**11},
        "fct_us": time_us if finished else _NULL,
        "ideal_us": _or_null(ideal_us) if watched else ideal_us,
        "deadline_us": time_us if deadline else _NULL,
        "met": {"type": "boolean"} if deadline else _NULL,
        "retransmissions": _or_null(_whole(0, 2**40)) if watched else _whole(0, 2**40),
        "congestion_control": _NAME,
        "scheme": _SCHEME,
        "status": {"type": "string", "const": FINISHED if finished else UNFINISHED},
        "reason": {"type": "string", "maxLength": 200, "pattern": r"^[^\u0000]*$"},
        "source": {"type": "string", "enum": [WATCHED, BACKGROUND] if watched else [SCHEDULED]},
        "src_port": port,
        "dst_port": port,
        "lasted_us": _or_null(time_us),
        "timeouts": _or_null(_whole(0, 2**40)),
        "srtt_us": _or_null(time_us),
    }
    optional = {"reason", "src_port", "dst_port", "lasted_us", "timeouts", "srtt_us"}
    optional |= {"ideal_us", "retransmissions"} if watched else {"source"}
    optional |= {*(() if finished else ("fct_us",)), *(() if deadline else ("deadline_us", "met"))}
    return {
        "type": "object",
        "title": f"{'watched, ' if watched else ''}{'finished' if finished else 'unfinished'}, "
        f"{'with' if deadline else 'without'} deadline",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def flows_schema() -> dict[str, Any]:
    """A batch of flow records."""
    kinds = [_flow(*kind) for kind in product((True, False), (False, True), (False, True))]
    return {"type": "array", "items": {"anyOf": kinds}}


def heartbeat_schema() -> dict[str, Any]:
    """An agent's heartbeat: one alternative for each kind of agent."""
    return {"oneOf": [_heartbeat(kind, cls) for kind, cls in HEARTBEATS.items()]}


def _heartbeat(kind: str, cls: type[Heartbeat]) -> dict[str, Any]:
    document = schema(cls)
    document["properties"] = {"kind": {"type": "string", "const": kind}, **document["properties"]}
    document["required"] = ["kind", *document["required"]]
    return {"title": kind, **document}
