# SPDX-License-Identifier: Apache-2.0
"""The policy: its history, changes, previews, and the overrides of single ports."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from flask import Response, jsonify, make_response
from pydantic import Field
from sqlalchemy import Engine

from sluice.policy.errors import FieldError, refuse_unknown
from sluice.policy.fabrics import SIMULATOR, TESTBED, check_fabric
from sluice.policy.schema import fitting
from sluice.policy.schema.desired import Policy, check_ports, port_warnings
from sluice.policy.schema.field_kinds import MAX_QUEUES
from sluice.policy.schema.fields import PolicyFields, scheme_schema
from sluice.policy.schema.kinds import ListOf, Size
from sluice.policy.schemes import SCHEMES, ThresholdRule
from sluice.policy.thresholds.static import LEAST_FLOWS, LEAST_S, SOLVERS, measured_traffic
from sluice.policy.wire.access import READ
from sluice.store import desired
from sluice.store.flow_queries import newest_traffic
from sluice.store.observed import add_event, simulation
from sluice.webui.api import Api, ApiError, Model, PortPath, check_port, model_of, read_json
from sluice.webui.auth import Caller, require_token
from sluice.webui.services import services


class OverrideModel(Model):
    ports: list[str] = Field(description='"s1:2", "s1:*" or "*"')
    thresholds: list[int] | None = Field(None, description="fixed by hand, in bytes")
    freeze: bool = Field(False, description="whether the ports keep the thresholds that are in force")


class PolicyModel(model_of(PolicyFields, overrides=list[OverrideModel], parameters=dict[str, int] | None)):  # type: ignore[misc]
    """A policy with all its fields."""


class PolicyVersionModel(Model):
    version: int
    policy: PolicyModel
    author: str
    created_at: float
    applied_at: float | None
    state: Literal["applied", "pending", "superseded"]


class ChangedPolicyModel(PolicyVersionModel):
    """The policy after a change."""

    warnings: list[str] = Field(description="names of ports that the network does not have")


class PolicyAnswer(Model):
    current: PolicyVersionModel | None
    history: list[PolicyVersionModel]


Value: TypeAlias = bool | float | str | list[float] | list[str] | list[OverrideModel] | dict[str, int] | None


class PolicyChange(Model):
    """A field whose value a document changes."""

    field: str
    title: str = Field(description="label of the field")
    before: Value = Field(description="the value in force; null also before the first policy")
    after: Value
    because: str = Field(description="where the new value comes from")


class PolicyPreview(Model):
    policy: PolicyModel
    against: int | None = Field(description="the version in force; null before the first policy")
    changes: list[PolicyChange]


class AuditedChange(model_of(desired.PolicyChange)):  # type: ignore[misc]
    pass


class AuditedAct(model_of(desired.Act)):  # type: ignore[misc]
    pass


class AuditAnswer(Model):
    changes: list[AuditedChange] = Field(description="changes of the policy, newest first")
    acts: list[AuditedAct] = Field(
        description="the network's description, enrolments, certificates, tokens and runs, newest first"
    )


class HistoryQuery(Model):
    limit: int = Field(50, ge=1, le=1000, description="how many versions to return")


class PutPolicyQuery(Model):
    wait_s: float = Field(
        3,
        ge=0,
        le=30,
        allow_inf_nan=False,
        description="how many seconds to wait for the controller to apply the policy",
    )


def policy_document(version: desired.PolicyVersion, newest_version: int) -> dict[str, Any]:
    state = "pending" if version.applied_at is None else "applied"
    state = "superseded" if version.version < newest_version else state
    return {**vars(version), "policy": version.policy.to_document(), "state": state}


def current_policy_document(engine: Engine) -> dict[str, Any] | None:
    current = desired.policy_in_force(engine)
    return policy_document(current, current.version) if current else None


def policy_schema() -> dict[str, Any]:
    """Return the schema of a policy: one alternative for each scheme that switches can carry out."""
    words = {"description": "Computed for the measured traffic.", "type": "string", "enum": [*SOLVERS]}
    documents = []
    for scheme in SCHEMES.values():
        if scheme.simulator_only:
            continue
        document = {"title": scheme.name, **scheme_schema(scheme)}
        if scheme.threshold_rule is not ThresholdRule.NONE:
            document["properties"]["thresholds"]["anyOf"].insert(1, words)
        documents.append(document)
    return {"oneOf": documents, "discriminator": {"propertyName": "scheme"}}


VERSIONS = 50
"""How many policies are searched for the network's K."""
_LACKING = f"the records of at least {LEAST_FLOWS} flows over {LEAST_S:.0f} s"


def fitted_here(engine: Engine, document: object) -> fitting.Fitted:
    """Return the policy of a document in the network of this store. Raises FieldError, also for an unknown port."""
    if not isinstance(document, Mapping):
        raise FieldError("policy", "must be an object with at least a scheme")
    topology = desired.current_topology(engine)
    traffic = None
    if topology is not None:
        rates_bps = {host.name: topology.edge_port(host.name).rate_bps for host in topology.hosts}
        traffic = measured_traffic(newest_traffic(engine), rates_bps)
    around = fitting.Surroundings(
        fitting.path_of(topology) if topology else None,
        tuple(version.policy for version in desired.policy_history(engine, VERSIONS)),
        traffic,
        _LACKING,
        fits_thresholds=True,
    )
    change = fitting.fitted(document, around)
    before = around.before[0] if around.before else None
    check_ports(change.policy, topology.port_by_id if topology else (), before)
    check_fabric(change.policy, TESTBED if simulation(engine) is None else SIMULATOR)
    return change


api = Api("policy", __name__, "The scheme that the network carries out, and its parameters")

_POLL_S = 0.05


@api.get("/policy", answers=PolicyAnswer)
def read_policy(query: HistoryQuery) -> Response:
    """The current policy and the earlier ones, newest first."""
    history = desired.policy_history(services().engine, query.limit)
    newest = history[0].version if history else 0
    documents = [policy_document(version, newest) for version in history]
    return jsonify(current=documents[0] if documents else None, history=documents)


@api.get("/audit", answers=AuditAnswer, token=True)
def read_audit(query: HistoryQuery) -> Response:
    """Who changed the policy, and who did anything else through the API.

    Needs a token of any role, because it shows names and addresses.
    """
    require_token(READ)
    changes = desired.policy_changes(services().engine, query.limit)
    acts = desired.last_acts(services().engine, query.limit)
    return jsonify(changes=[asdict(change) for change in changes], acts=[asdict(act) for act in acts])


@api.put(
    "/policy", answers={200: ChangedPolicyModel, 202: ChangedPolicyModel}, token=True, body=policy_schema
)
def change_policy(query: PutPolicyQuery) -> Response:
    """Make this document the policy. What it leaves out follows from the network, its traffic and the scheme.

    Answers 200 once the controller has applied it. Answers 202 if that takes longer than `wait_s`;
    the policy remains in the store, and the controller applies it later. Answers 422 for a name of
    a port that the network does not have. If the policy in force has the name already, the change
    is accepted, and `warnings` has a line: the port may have left.
    """
    caller = require_token()
    engine = services().engine
    policy = fitted_here(engine, read_json()).policy
    return put_and_wait(policy, caller, query.wait_s)


def put_and_wait(policy: Policy, caller: Caller, wait_s: float, replaces: int | None = None) -> Response:
    """Store a policy, and answer as `PUT /policy` does. Raises Superseded (store.desired)."""
    engine = services().engine
    version = desired.put_policy(engine, policy, caller, replaces)
    add_event(engine, "policy-requested", version=version, scheme=policy.scheme, by=caller.name)
    reached = wait_applied(engine, version, wait_s, services().stopping)
    network = desired.current_topology(engine)
    warnings = port_warnings(policy, network.port_by_id if network else ())
    document = policy_document(reached, desired.current_version(engine)) | {"warnings": warnings}
    return make_response(jsonify(document), 202 if reached.applied_at is None else 200)


@api.post("/policy/preview", answers=PolicyPreview, body=policy_schema)
def preview_policy() -> Response:
    """Return the whole policy that `PUT /policy` would make of this document, and what it changes. Nothing changes."""
    engine = services().engine
    change = fitted_here(engine, read_json())
    in_force = desired.policy_in_force(engine)
    changes = fitting.differences(in_force.policy if in_force else None, change)
    return jsonify(
        policy=change.policy.to_document(),
        against=in_force.version if in_force else None,
        changes=[asdict(each) for each in changes],
    )


def wait_applied(
    engine: Engine, version: int, wait_s: float, stopping: threading.Event
) -> desired.PolicyVersion:
    """Return the version once it is applied or replaced, or after `wait_s`, or when the process stops."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        now = desired.progress(engine)
        if now.applied_at is not None or now.version != version or stopping.wait(_POLL_S):
            break
    reached = desired.policy_version(engine, version)
    if reached is None:
        raise LookupError(f"policy version {version} is no longer in the store")
    return reached


# ── The override of one port. Each change makes a new policy version. ────────────────────────────────────────────────


overrides_api = Api("overrides", __name__, "The override of one port")

MOST_OVERRIDE_BYTES = 4000
_OVERRIDE_KEYS = ("thresholds", "freeze")
_SIZES = ListOf(Size(1, 10**12), shortest=1, longest=MAX_QUEUES - 1)
_OVERRIDE = {
    "anyOf": [
        {"type": "object", "properties": {key: kind}, "required": [key], "additionalProperties": False}
        for key, kind in {
            "thresholds": _SIZES.schema()
            | {"description": "Bytes, one fewer than the queues; they increase."},
            "freeze": {"const": True, "type": "boolean", "description": "Keep the thresholds in force."},
        }.items()
    ]
}


@overrides_api.put(
    "/ports/<port>/override",
    answers={200: ChangedPolicyModel, 202: ChangedPolicyModel},
    errors=[404, 409],
    token=True,
    body=lambda: _OVERRIDE,
)
def put_override(path: PortPath, query: PutPolicyQuery) -> Response:
    """Fix or freeze the thresholds of one port. This replaces the port's own override. Answers as `PUT /policy`."""
    caller = require_token()
    rule = read_json(MOST_OVERRIDE_BYTES)
    if not isinstance(rule, Mapping):
        raise FieldError("override", "must be an object with thresholds, or with freeze = true")
    refuse_unknown(rule, _OVERRIDE_KEYS)
    return _change(
        caller, path.port, query.wait_s, lambda policy: fitting.overridden(policy, path.port, rule)
    )


@overrides_api.delete(
    "/ports/<port>/override",
    answers={200: ChangedPolicyModel, 202: ChangedPolicyModel},
    errors=[400, 404, 409, 413, 415],
    token=True,
)
def delete_override(path: PortPath, query: PutPolicyQuery) -> Response:
    """Remove the override that names this port, so that it follows the policy again. Answers as `PUT /policy`.

    An override of several ports, such as "s1:*", stays.
    """
    caller = require_token()
    return _change(caller, path.port, query.wait_s, lambda policy: fitting.not_overridden(policy, path.port))


def _change(
    caller: Caller, port: str, wait_s: float, settings: Callable[[Policy], Mapping[str, Any]]
) -> Response:
    engine = services().engine
    check_port(desired.current_topology(engine), port)
    current = desired.policy_in_force(engine)
    if current is None:
        raise ApiError(409, "no-policy", "there is no policy yet; choose a scheme first")
    try:
        policy = Policy.from_document({**current.policy.to_document(), **settings(current.policy)})
    except FieldError as error:
        # The key as this request wrote it: "thresholds" of "overrides[3].thresholds".
        key = re.sub(r"^overrides(\[\d+\]\.?)?", "", error.field or "")
        raise FieldError(key or "override", error.problem) from None
    try:
        return put_and_wait(policy, caller, wait_s, replaces=current.version)
    except desired.Superseded:
        raise ApiError(
            409, "policy-changed", "someone changed the policy at the same moment; try again"
        ) from None
