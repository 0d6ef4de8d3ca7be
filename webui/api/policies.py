# SPDX-License-Identifier: Apache-2.0
"""The policy: reading and changing it."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict

from flask import Response, jsonify, make_response
from sqlalchemy import Engine

from sluice.policy.fabrics import check_fabric
from sluice.policy.schema.desired import Policy, port_warnings
from sluice.policy.wire.access import READ
from sluice.store.audit import Author, policy_changes
from sluice.store.desired import (
    PolicyVersion,
    current_topology,
    current_version,
    policy_history,
    policy_version,
    put_policy,
)
from sluice.store.observed import add_event
from sluice.webui.api import blueprint
from sluice.webui.auth import Caller, require_token
from sluice.webui.bodies import read_json
from sluice.webui.documents import fabric_of, policy_document
from sluice.webui.error_models import Error
from sluice.webui.fitting import fitted_here, preview_document
from sluice.webui.policy_models import AuditAnswer, ChangedPolicyModel, PolicyAnswer, PolicyPreview
from sluice.webui.queries import HistoryQuery, PutPolicyQuery
from sluice.webui.request_schemas import policy_schema, request_body
from sluice.webui.services import services

api = blueprint("policy", __name__, "The scheme that the network carries out, and its parameters")

_POLL_S = 0.05


@api.get("/policy", responses={200: PolicyAnswer})
def read_policy(query: HistoryQuery) -> Response:
    """The current policy and the earlier ones, newest first."""
    history = policy_history(services().engine, query.limit)
    newest = history[0].version if history else 0
    documents = [policy_document(version, newest) for version in history]
    return jsonify(current=documents[0] if documents else None, history=documents)


@api.get("/audit", responses={200: AuditAnswer, 401: Error, 403: Error}, security=[{"bearer": []}])
def read_audit(query: HistoryQuery) -> Response:
    """Who changed the policy, newest first.

    Needs a token of any role, because it shows names and addresses.
    """
    require_token(services().token, READ)
    changes = policy_changes(services().engine, query.limit)
    return jsonify(changes=[asdict(change) for change in changes])


@api.put(
    "/policy",
    responses={
        200: ChangedPolicyModel,
        202: ChangedPolicyModel,
        400: Error,
        401: Error,
        403: Error,
        413: Error,
        415: Error,
    },
    security=[{"bearer": []}],
    openapi_extensions=request_body(policy_schema()),
)
def change_policy(query: PutPolicyQuery) -> Response:
    """Make this document the policy. What it leaves out follows from the network, its traffic and the scheme.

    Answers 200 once the controller has applied it. Answers 202 if that takes longer than `wait_s`;
    the policy remains in the store, and the controller applies it later. Answers 422 for a name of
    a port that the network does not have. If the policy in force has the name already, the change
    is accepted, and `warnings` has a line: the port may have left.
    """
    caller = require_token(services().token)
    engine = services().engine
    policy = fitted_here(engine, read_json()).policy
    check_fabric(policy, fabric_of(engine))
    return put_and_wait(policy, caller, query.wait_s)


def put_and_wait(policy: Policy, caller: Caller, wait_s: float, replaces: int | None = None) -> Response:
    """Store a policy, and answer as `PUT /policy` does. Raises Superseded (store.desired)."""
    engine = services().engine
    version = put_policy(engine, policy, Author(caller.name, caller.address), replaces)
    add_event(engine, "policy-requested", version=version, scheme=policy.scheme, by=caller.name)
    reached = wait_applied(engine, version, wait_s, services().stopping)
    network = current_topology(engine)
    warnings = port_warnings(policy, network.port_by_id if network else ())
    document = policy_document(reached, current_version(engine)) | {"warnings": warnings}
    return make_response(jsonify(document), 202 if reached.applied_at is None else 200)


@api.post(
    "/policy/preview",
    responses={200: PolicyPreview, 400: Error, 413: Error, 415: Error},
    openapi_extensions=request_body(policy_schema()),
)
def preview_policy() -> Response:
    """Return the whole policy that `PUT /policy` would make of this document, and what it changes. Nothing changes."""
    engine = services().engine
    change = fitted_here(engine, read_json())
    check_fabric(change.policy, fabric_of(engine))
    return jsonify(preview_document(engine, change))


def wait_applied(engine: Engine, version: int, wait_s: float, stopping: threading.Event) -> PolicyVersion:
    """Return the version once it is applied or replaced, or after `wait_s`, or when the process stops."""
    deadline = time.monotonic() + wait_s
    while True:
        reached = policy_version(engine, version)
        if reached is None:
            raise LookupError(f"policy version {version} is no longer in the store")
        late = time.monotonic() >= deadline
        if reached.applied_at is not None or late or current_version(engine) != version:
            return reached
        if stopping.wait(_POLL_S):
            return reached
