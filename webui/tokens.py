# SPDX-License-Identifier: Apache-2.0
"""Access tokens: making, listing and revoking them."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Literal

from flask import Response, jsonify
from pydantic import BaseModel, Field

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry, read, schema
from sluice.policy.schema.kinds import Choice, Whole
from sluice.policy.wire.access import CHANGE, OWNER, READ, ROLES, TOKEN_LIFE_MAX_S
from sluice.store.observed import add_event
from sluice.store.tokens import TokenRefused, all_tokens, create_token, revoke_token
from sluice.webui.auth import require_token
from sluice.webui.bodies import read_json, request_body
from sluice.webui.errors import ApiError, Error, blueprint
from sluice.webui.services import services

# ── Bodies of requests, and models of the answers ────────────────────────────────────────────────────────────────────


class AccessAnswer(BaseModel):
    role: Literal["read", "change", "owner"] | None


class AccessTokenAnswer(BaseModel):
    token: str = Field(description="the only copy; the store keeps its hash")
    name: str
    role: Literal["read", "change"]
    expires_at: float = Field(description="epoch seconds")


class AccessTokenModel(BaseModel):
    name: str
    role: Literal["read", "change"]
    created_at: float
    expires_at: float
    revoked_at: float | None
    state: Literal["valid", "ended", "revoked"]


class AccessTokens(BaseModel):
    tokens: list[AccessTokenModel]


class TokenRevoked(BaseModel):
    revoked: str = Field(description="the token's name")


class TokenPath(BaseModel):
    name: str = Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")


@dataclass(frozen=True)
class NewAccessToken:
    """What a new access token allows."""

    name: str = entry(entries.TOKEN, "Who uses the token.")
    role: str = entry(Choice(ROLES), "What it allows.")
    valid_s: int = entry(Whole(1, TOKEN_LIFE_MAX_S, "s"), "The token expires after this time.")


# ── The endpoints ────────────────────────────────────────────────────────────────────────────────────────────────────


api = blueprint("tokens", __name__, "Who may read and change")

MAX_BODY_BYTES = 4000


@api.post(
    "/tokens",
    responses={
        200: AccessTokenAnswer,
        400: Error,
        401: Error,
        403: Error,
        409: Error,
        413: Error,
        415: Error,
    },
    security=[{"bearer": []}],
    openapi_extensions=request_body(schema(NewAccessToken)),
)
def make_access_token() -> Response:
    """Make a token. Needs the token with which the web process starts. The answer is its only copy."""
    caller = require_token(services().token, OWNER)
    asked = read(NewAccessToken, read_json(MAX_BODY_BYTES))
    expires_at = time.time() + asked.valid_s
    try:
        token = create_token(services().engine, asked.name, asked.role, expires_at)
    except TokenRefused as refused:
        raise ApiError(409, "token-refused", str(refused), "name") from None
    add_event(services().engine, "token-made", name=asked.name, role=asked.role, by=caller.name)
    return jsonify(token=token, name=asked.name, role=asked.role, expires_at=expires_at)


@api.get("/access", responses={200: AccessAnswer}, security=[{}, {"bearer": []}])
def read_access() -> Response:
    """What the request's token allows. The role is null without a token in force."""
    try:
        return jsonify(role=require_token(services().token, READ).role)
    except ApiError:
        return jsonify(role=None)


@api.get("/tokens", responses={200: AccessTokens, 401: Error, 403: Error}, security=[{"bearer": []}])
def list_access_tokens() -> Response:
    """The tokens without their secrets. Needs the role change. An ended one stays in the list for 30 days."""
    require_token(services().token, CHANGE)
    now = time.time()
    found = all_tokens(services().engine)
    return jsonify(tokens=[{**asdict(one), "state": one.state(now)} for one in found])


@api.post(
    "/tokens/<name>/revocation",
    responses={200: TokenRevoked, 401: Error, 403: Error, 404: Error},
    security=[{"bearer": []}],
)
def revoke_access_token(path: TokenPath) -> Response:
    """End a token from the next request on. Needs the token with which the web process starts."""
    caller = require_token(services().token, OWNER)
    if not revoke_token(services().engine, path.name):
        raise ApiError(404, "not-found", f"no token named {path.name} is in force")
    add_event(services().engine, "token-revoked", name=path.name, by=caller.name)
    return jsonify(revoked=path.name)
