# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens: the one with which the web process starts, and those that it has made."""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from flask import request

from sluice.policy.errors import EnvironmentLacking
from sluice.policy.wire.access import CHANGE, OWNER, allows
from sluice.store import tokens
from sluice.webui.errors import ApiError
from sluice.webui.services import services

TOKEN_VARIABLE = "SLUICE_TOKEN"
INSTALLED_TOKEN = Path("/var/lib/sluice/token")
"""Token of the service that the Debian package installs. Only root and the user sluice can read it."""


def default_token_path() -> Path:
    """Return the path of the generated token, which is kept between starts.

    It is that of the installed service if only this one has a token, and the caller may read it. So commands of root
    need no option on the machine of the service.
    """
    state = os.environ.get("XDG_STATE_HOME")
    own = Path(state or Path.home() / ".local" / "state") / "sluice" / "token"
    if not state and not own.exists() and os.access(INSTALLED_TOKEN, os.R_OK):
        return INSTALLED_TOKEN
    return own


def default_authority_path() -> Path:
    """Return the folder of the agents' certificate authority, next to the generated token."""
    return default_token_path().with_name("authority")


def find_token(token_file: Path | None) -> tuple[str, str]:
    """Return the token and, for the log, its source.

    The source is the named file, otherwise the environment variable, otherwise a generated token.
    Raises EnvironmentLacking if the named file cannot give a token.
    """
    if token_file is not None:
        return read_token(token_file), str(token_file)
    if os.environ.get(TOKEN_VARIABLE):
        return os.environ[TOKEN_VARIABLE], f"the environment variable {TOKEN_VARIABLE}"
    path = default_token_path()
    if not path.exists():
        write_token(path, secrets.token_urlsafe(24))
    return read_token(path), str(path)


def write_token(path: Path, token: str) -> None:
    """Write a token into a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(token + "\n")


def read_token(path: Path) -> str:
    """Return the token in a file. Raises EnvironmentLacking if there is none."""
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise EnvironmentLacking(
            f"cannot read the token file {path}: {error.strerror}; write a token into it or leave the option out"
        ) from error
    if not token:
        raise EnvironmentLacking(f"the token file {path} is empty; write a token into it")
    return token


@dataclass(frozen=True)
class Caller:
    """Who sends a request."""

    name: str
    """The name of the token."""
    role: str
    address: str
    """The address of the connection, or "unix socket"."""


def require_token(owner_token: str, needed: str = CHANGE) -> Caller:
    """Return who sends the request. Raises ApiError 401 without a token in force, 403 if its role allows less."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    found = _who(given.strip(), owner_token) if scheme.lower() == "bearer" else None
    if found is None:
        raise ApiError(
            401, "unauthorised", "send the header Authorization: Bearer <token>, with a token in force"
        )
    name, role = found
    if not allows(role, needed):
        allowed = (
            "the token of the web process's start" if needed == OWNER else f"a token with the role {needed}"
        )
        raise ApiError(403, "role", f"this token has the role {role}, but this needs {allowed}")
    return Caller(name, role, request.remote_addr or "unix socket")


def _who(given: str, owner_token: str) -> tuple[str, str] | None:
    """Return name and role of a token; None if it is not in force."""
    if hmac.compare_digest(given.encode(), owner_token.encode()):
        return OWNER, OWNER
    found = tokens.find_token(services().engine, given)
    return (found.name, found.role) if found else None
