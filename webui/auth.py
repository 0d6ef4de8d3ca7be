# SPDX-License-Identifier: Apache-2.0
"""Who sends a request: the token with which the web process starts, and those that it has made."""

import hmac
import time
from dataclasses import asdict, dataclass
from typing import Literal

from flask import Response, jsonify, request
from pydantic import Field

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry, read
from sluice.policy.schema.kinds import Choice, Whole
from sluice.policy.wire.access import CHANGE, OWNER, READ, ROLES, TOKEN_LIFE_MAX_S, allows
from sluice.store import access
from sluice.store.desired import Author, add_act
from sluice.webui.api import Api, ApiError, Model, model_of, read_json
from sluice.webui.services import services


@dataclass(frozen=True)
class Caller(Author):
    """Who sends a request. The address is that of the connection, or "unix socket"."""

    role: str


def require_token(needed: str = CHANGE) -> Caller:
    """Return who sends the request. Raises ApiError 401 without a token in force, 403 if its role allows less."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = _token_in_force(given.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        raise ApiError(
            401, "unauthorised", "send the header Authorization: Bearer <token>, with a token in force"
        )
    name, role = token
    if not allows(role, needed):
        allowed = (
            "the token of the web process's start" if needed == OWNER else f"a token with the role {needed}"
        )
        raise ApiError(403, "role", f"this token has the role {role}, but this needs {allowed}")
    return Caller(name, request.remote_addr or "unix socket", role)


def role_of_request() -> str | None:
    """Return the role of the request's token; None without one in force."""
    try:
        return require_token(READ).role
    except ApiError:
        return None


def _token_in_force(given: str) -> tuple[str, str] | None:
    """Return name and role of a token; None if it is not in force."""
    if hmac.compare_digest(given.encode(), services().token.encode()):
        return OWNER, OWNER
    token = access.find_token(services().engine, given)
    return (token.name, token.role) if token else None


class AccessAnswer(Model):
    role: Literal["read", "change", "owner"] | None


class AccessTokenAnswer(Model):
    token: str = Field(description="the only copy; the store keeps its hash")
    name: str
    role: Literal["read", "change"]
    expires_at: float = Field(description="epoch seconds")


class AccessTokenModel(model_of(access.AccessToken, role=Literal["read", "change"])):  # type: ignore[misc]
    state: Literal["valid", "ended", "revoked"]


class AccessTokens(Model):
    tokens: list[AccessTokenModel]


class TokenRevoked(Model):
    revoked: str = Field(description="the token's name")


class TokenPath(Model):
    name: str = Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")


@dataclass(frozen=True)
class NewAccessToken:
    """What a new access token allows."""

    name: str = entry(entries.TOKEN, "Who uses the token.")
    role: str = entry(Choice(ROLES), "What it allows.")
    valid_s: int = entry(Whole(1, TOKEN_LIFE_MAX_S, "s"), "The token expires after this time.")


api = Api("tokens", __name__, "Who may read and change")

MAX_BODY_BYTES = 4000


@api.post("/tokens", answers=AccessTokenAnswer, errors=[409], token=True, body=NewAccessToken)
def make_access_token() -> Response:
    """Make a token. Needs the token with which the web process starts. The answer is its only copy."""
    caller = require_token(OWNER)
    asked = read(NewAccessToken, read_json(MAX_BODY_BYTES))
    expires_at = time.time() + asked.valid_s
    try:
        token = access.create_token(services().engine, asked.name, asked.role, expires_at)
    except access.TokenRefused as refused:
        raise ApiError(409, "token-refused", str(refused), "name") from None
    add_act(services().engine, "token-made", caller, name=asked.name, role=asked.role)
    return jsonify(token=token, name=asked.name, role=asked.role, expires_at=expires_at)


@api.get("/access", answers=AccessAnswer, security=[{}, {"bearer": []}])
def read_access() -> Response:
    """What the request's token allows. The role is null without a token in force."""
    return jsonify(role=role_of_request())


@api.get("/tokens", answers=AccessTokens, token=True)
def list_access_tokens() -> Response:
    """The tokens without their secrets. Needs the role change. An ended one stays in the list for 30 days."""
    require_token(CHANGE)
    now = time.time()
    tokens = access.all_tokens(services().engine)
    return jsonify(tokens=[{**asdict(token), "state": token.state(now)} for token in tokens])


@api.post("/tokens/<name>/revocation", answers=TokenRevoked, errors=[404], token=True)
def revoke_access_token(path: TokenPath) -> Response:
    """End a token from the next request on. Needs the token with which the web process starts."""
    caller = require_token(OWNER)
    if not access.revoke_token(services().engine, path.name):
        raise ApiError(404, "not-found", f"no token named {path.name} is in force")
    add_act(services().engine, "token-revoked", caller, name=path.name)
    return jsonify(revoked=path.name)
