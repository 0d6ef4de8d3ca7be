# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the request bodies, for the OpenAPI document.

Bodies are validated by the policy package itself, the same code that validates scenarios; these schemas say to
clients what it accepts. What JSON Schema cannot say (thresholds must increase) is in the descriptions.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from policy.desired import (
    MAX_MARK_BYTES,
    MAX_OVERRIDES,
    MAX_QUEUES,
    MAX_RELEASE_NS,
    MAX_SUB_QUEUES,
    MAX_TAG_BURST_BYTES,
    MAX_THRESHOLD_BYTES,
    PORTS_PATTERN,
)
from policy.records import BACKGROUND, FINISHED, SCHEDULED, SIZE_CLASSES, UNFINISHED, WATCHED
from policy.schemes import SCHEMES, Marking, QueueRule, Scheme, ThresholdRule
from webui.connections import FIELD, connections_schema

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


def _size(low: int, high: int) -> dict[str, Any]:
    """Bytes, or text with a unit."""
    text = {
        "type": "string",
        "pattern": r"^\s*[0-9]{1,18}(\.[0-9]{1,18})?\s*([kKmMgG]?[bB]|[pP][kK][tT])\s*$",
        "examples": ["10KB", "65pkt"],
    }
    return {"anyOf": [_whole(low, high), text]}


def _policy_of(scheme: Scheme) -> dict[str, Any]:
    adapts = scheme.threshold_rule is ThresholdRule.PERCENTILE
    single = scheme.threshold_rule is ThresholdRule.NONE
    lengths = {"maxItems": 0 if single else MAX_QUEUES - 1}
    percentile = {"type": "number", "exclusiveMinimum": 0, "maximum": 100}
    properties = {
        "scheme": {"const": scheme.name, "type": "string"},
        "queues": _whole(scheme.queues, scheme.queues) if single else _whole(1, MAX_QUEUES),
        "thresholds": {
            "type": "array",
            "items": _size(1, MAX_THRESHOLD_BYTES),
            "description": "increasing; as many as the scheme has for so many queues",
            **lengths,
        },
        "percentiles": {
            "type": "array",
            "items": percentile,
            "description": "increasing; as many as the scheme has for so many queues",
            "maxItems": MAX_QUEUES - 1 if adapts else 0,
        },
        "window_ms": _whole(10, 3_600_000),
        "interval_ms": _whole(10, 600_000),
        "min_flows": _whole(1, 1_000_000),
        **_marks_of(scheme),
        "buffer": _size(3_000, 1_000_000_000),
        **_sharing(),
        "urgent_after": _size(0, MAX_THRESHOLD_BYTES) if scheme.tags_deadlines else _NULL,
        "untagged_queue": _whole(0, (scheme.queues if single else MAX_QUEUES) - 1),
        "idle_gap_ms": _whole(1, 60_000),
        "tag_burst": _tag_burst_of(scheme),
        "overrides": _overrides_of(scheme),
    }
    optional = {name: schema if name == "scheme" else _or_null(schema) for name, schema in properties.items()}
    return {"type": "object", "properties": optional, "required": ["scheme"], "additionalProperties": False}


def _tag_burst_of(scheme: Scheme) -> dict[str, Any]:
    decides = scheme.queue_rule not in (QueueRule.SINGLE, QueueRule.SHORTEST_FIRST)
    return _size(0, MAX_TAG_BURST_BYTES) if decides else _NULL


def _overrides_of(scheme: Scheme) -> dict[str, Any]:
    """Thresholds fixed by hand at some ports, or frozen where they would adapt."""
    if scheme.threshold_rule is ThresholdRule.NONE:
        return {"type": "array", "maxItems": 0}
    thresholds = {"type": "array", "items": _size(1, MAX_THRESHOLD_BYTES), "maxItems": MAX_QUEUES - 1}
    ports = {"type": "array", "items": {"type": "string", "pattern": PORTS_PATTERN}, "minItems": 1}
    kinds = [{"ports": ports, "thresholds": thresholds}]
    if scheme.threshold_rule.adapts:
        kinds.append({"ports": ports, "freeze": {"const": True, "type": "boolean"}})
    items = [
        {"type": "object", "properties": kind, "required": list(kind), "additionalProperties": False}
        for kind in kinds
    ]
    return {"type": "array", "maxItems": MAX_OVERRIDES, "items": {"anyOf": items}}


def _marks_of(scheme: Scheme) -> dict[str, Any]:
    size = _size(1, MAX_MARK_BYTES)
    at = scheme.marking in (Marking.PORT, Marking.PHANTOM)
    ramp = scheme.marking is Marking.RED
    return {
        "mark_at": size if at else _NULL,
        "mark_at_core": size if scheme.marking is Marking.PORT else _NULL,
        "mark_min": size if ramp else _NULL,
        "mark_max": {**size, "description": "above mark_min, below buffer"} if ramp else _NULL,
    }


def _sharing() -> dict[str, Any]:
    """How a port's queues and flows share the link. What its fabric cannot do is refused."""
    time = {
        "type": "string",
        "pattern": r"^\s*[0-9]{1,18}(\.[0-9]{1,18})?\s*([nNuUmM]?[sS]|[mM][iI][nN])\s*$",
    }
    return {
        "shares": {
            "type": "array",
            "items": {"type": "number", "minimum": 0, "maximum": 1},
            "maxItems": MAX_QUEUES,
            "description": "one a queue, at most 1 in all; null or empty: strict priorities",
        },
        "flow_queues": {"type": "boolean"},
        "sub_queues": _whole(1, MAX_SUB_QUEUES),
        "release": {"anyOf": [_whole(0, MAX_RELEASE_NS), time], "description": "nanoseconds, or with a unit"},
    }


def policy_schema() -> dict[str, Any]:
    """A policy document: one alternative for each scheme that switches can carry out."""
    schemes = [scheme for scheme in SCHEMES.values() if not scheme.simulator_only]
    return {
        "oneOf": [{"title": scheme.name, **_policy_of(scheme)} for scheme in schemes],
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
        "reason": {"type": "string", "maxLength": 200, "pattern": r"^[^\u0000\ud800-\udfff]*$"},
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
    """An agent's heartbeat: its kind, and whatever else it has to say."""
    return {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["host", "port"]}, FIELD: connections_schema()},
        "required": ["kind"],
        "additionalProperties": True,
    }
