# SPDX-License-Identifier: Apache-2.0
"""Where the web process and the commands find the token with which it starts, and files for their owner alone."""

import os
import secrets
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking

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


def find_token(token_file: Path | None, *, make: bool = False) -> tuple[str, str]:
    """Return the token and its source, for a message.

    The source is the named file, otherwise the environment variable, otherwise the file of the generated token. Only
    the web process may `make` one. Raises EnvironmentLacking if there is none.
    """
    if token_file is not None:
        return read_token(token_file), str(token_file)
    if os.environ.get(TOKEN_VARIABLE):
        return os.environ[TOKEN_VARIABLE], f"the environment variable {TOKEN_VARIABLE}"
    path = default_token_path()
    if not path.exists():
        if not make:
            raise EnvironmentLacking(
                f"there is no token at {path}: give the web process's own with --token-file or in ${TOKEN_VARIABLE}"
            )
        write_private(path, f"{secrets.token_urlsafe(24)}\n".encode())
    return read_token(path), str(path)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step by one that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    part.replace(path)


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
