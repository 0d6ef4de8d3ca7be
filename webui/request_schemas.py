# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the request bodies, for the OpenAPI document.

The policy package itself checks the bodies, with the code that checks scenarios. These schemas
describe to clients what it accepts. Rules that JSON Schema cannot express (thresholds must
increase) are in the descriptions.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from sluice.policy.schema.entries import schema
from sluice.policy.schema.fields import scheme_schema
from sluice.policy.schemes import SCHEMES, Scheme, ThresholdRule
from sluice.policy.thresholds.static import SOLVERS
from sluice.policy.wire.agents import HEARTBEATS, Heartbeat
from sluice.policy.wire.records import (
    BACKGROUND,
    FINISHED,
    NEEDED_IF_SCHEDULED,
    SCHEDULED,
    UNFINISHED,
    WATCHED,
    FlowRecord,
)


def request_body(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an operation's `requestBody` for flask-openapi3."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def policy_schema() -> dict[str, Any]:
    """Return the schema of a policy: one alternative for each scheme that switches can carry out."""
    schemes = [scheme for scheme in SCHEMES.values() if not scheme.simulator_only]
    return {
        "oneOf": [_policy_of(scheme) for scheme in schemes],
        "discriminator": {"propertyName": "scheme"},
    }


def _policy_of(scheme: Scheme) -> dict[str, Any]:
    document = {"title": scheme.name, **scheme_schema(scheme)}
    if scheme.threshold_rule is not ThresholdRule.NONE:
        words = {"description": "Computed for the measured traffic.", "type": "string", "enum": [*SOLVERS]}
        document["properties"]["thresholds"]["anyOf"].insert(1, words)
    return document


def _flow(finished: bool, deadline: bool, watched: bool) -> dict[str, Any]:
    """Return the schema of one kind of flow record. Its types express what
    FlowRecord.from_document checks between fields."""
    document = schema(FlowRecord)
    properties, required = document["properties"], set(document["required"])
    properties["status"] = {"type": "string", "const": FINISHED if finished else UNFINISHED}
    properties["source"] = {"type": "string", "enum": [WATCHED, BACKGROUND] if watched else [SCHEDULED]}
    there = {"fct_us": finished, "deadline_us": deadline, "met": deadline}
    there |= {} if watched else dict.fromkeys(NEEDED_IF_SCHEDULED, True)
    for name, is_there in there.items():
        properties[name] = properties[name]["anyOf"][0] if is_there else {"type": "null"}
        required |= {name} if is_there else set()
    required |= {"source"} if watched else set()
    title = f"{'watched, ' if watched else ''}{'finished' if finished else 'unfinished'}"
    return {
        **document,
        "title": f"{title}, {'with' if deadline else 'without'} deadline",
        "required": sorted(required),
    }


def flows_schema() -> dict[str, Any]:
    """Return the schema of a batch of flow records."""
    kinds = [_flow(*kind) for kind in product((True, False), (False, True), (False, True))]
    return {"type": "array", "items": {"anyOf": kinds}}


def heartbeat_schema() -> dict[str, Any]:
    """Return the schema of an agent's heartbeat: one alternative for each kind of agent."""
    return {"oneOf": [_heartbeat(kind, cls) for kind, cls in HEARTBEATS.items()]}


def _heartbeat(kind: str, cls: type[Heartbeat]) -> dict[str, Any]:
    document = schema(cls)
    document["properties"] = {"kind": {"type": "string", "const": kind}, **document["properties"]}
    document["required"] = ["kind", *document["required"]]
    return {"title": kind, **document}
