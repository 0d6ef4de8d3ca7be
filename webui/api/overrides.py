# SPDX-License-Identifier: Apache-2.0
"""The override of one port: thresholds that are fixed or frozen there. Each change makes a new policy version."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from flask import Response
from pydantic import BaseModel

from sluice.policy.errors import FieldError, unknown_key
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.field_kinds import MAX_QUEUES
from sluice.policy.schema.fitting import not_overridden, overridden
from sluice.policy.schema.kinds import ListOf, Size
from sluice.store.desired import Superseded, current_topology, policy_in_force
from sluice.webui.api import blueprint
from sluice.webui.api.policies import put_and_wait
from sluice.webui.auth import Caller, require_token
from sluice.webui.bodies import read_json
from sluice.webui.error_models import Error
from sluice.webui.errors import ApiError
from sluice.webui.known_ports import check_port
from sluice.webui.policy_models import ChangedPolicyModel
from sluice.webui.queries import PortPath, PutPolicyQuery
from sluice.webui.request_schemas import request_body
from sluice.webui.services import services

api = blueprint("overrides", __name__, "The override of one port")

MAX_BODY_BYTES = 4000
_KEYS = ("thresholds", "freeze")
_ANSWERS: dict[str | int | HTTPStatus, type[BaseModel] | dict[Any, Any] | None] = {
    200: ChangedPolicyModel,
    202: ChangedPolicyModel,
    400: Error,
    401: Error,
    403: Error,
    404: Error,
    409: Error,
    413: Error,
    415: Error,
}
_SIZES = ListOf(Size(1, 10**12), shortest=1, longest=MAX_QUEUES - 1)
_BODY = {
    "anyOf": [
        {"type": "object", "properties": {key: kind}, "required": [key], "additionalProperties": False}
        for key, kind in {
            "thresholds": _SIZES.schema()
            | {"description": "Bytes, one fewer than the queues; they increase."},
            "freeze": {"const": True, "type": "boolean", "description": "Keep the thresholds in force."},
        }.items()
    ]
}


@api.put(
    "/ports/<port>/override",
    responses=_ANSWERS,
    security=[{"bearer": []}],
    openapi_extensions=request_body(_BODY),
)
def put_override(path: PortPath, query: PutPolicyQuery) -> Response:
    """Fix or freeze the thresholds of one port. This replaces the port's own override. Answers as `PUT /policy`."""
    caller = require_token(services().token)
    rule = _rule(read_json(MAX_BODY_BYTES))
    return _change(caller, path.port, query.wait_s, lambda policy: overridden(policy, path.port, rule))


@api.delete("/ports/<port>/override", responses=_ANSWERS, security=[{"bearer": []}])
def delete_override(path: PortPath, query: PutPolicyQuery) -> Response:
    """Remove the override that names this port, so that it follows the policy again. Answers as `PUT /policy`.

    An override of several ports, such as "s1:*", stays.
    """
    caller = require_token(services().token)
    return _change(caller, path.port, query.wait_s, lambda policy: not_overridden(policy, path.port))


def _rule(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise FieldError("override", "must be an object with thresholds, or with freeze = true")
    for key in document:
        if key not in _KEYS:
            raise unknown_key(key, key, _KEYS)
    return document


def _change(
    caller: Caller, port: str, wait_s: float, settings: Callable[[Policy], Mapping[str, Any]]
) -> Response:
    engine = services().engine
    check_port(current_topology(engine), port)
    current = policy_in_force(engine)
    if current is None:
        raise ApiError(409, "no-policy", "there is no policy yet; choose a scheme first")
    try:
        made = Policy.from_document({**current.policy.to_document(), **settings(current.policy)})
    except FieldError as error:
        raise FieldError(_own_key(error.field), error.problem) from None
    try:
        return put_and_wait(made, caller, wait_s, replaces=current.version)
    except Superseded:
        raise ApiError(
            409, "policy-changed", "someone changed the policy at the same moment; try again"
        ) from None


def _own_key(field: str | None) -> str:
    """Return the key as this request wrote it: "thresholds" of "overrides[3].thresholds"."""
    return re.sub(r"^overrides(\[\d+\]\.?)?", "", field or "") or "override"
