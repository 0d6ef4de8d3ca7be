# SPDX-License-Identifier: Apache-2.0
"""The names under which the web process answers.

A page of another site can make its own name point at this machine (DNS rebinding). The browser then lets that page read
the answers. It sends the page's name in the header Host, so a request with a foreign name gets 421.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from flask import request

from sluice.runtime.settings.kinds import split_address
from sluice.webui.agent_tls import is_agents_address
from sluice.webui.errors import ApiError
from sluice.webui.services import services

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def allowed_hosts(listen: Iterable[str], more: Iterable[str]) -> frozenset[str]:
    """Return the names for these addresses to listen on (HOST:PORT) and for these other names, in small letters."""
    listening = (split_address(address)[0] for address in listen)
    return _LOOPBACK | {name.lower().rstrip(".") for name in (*listening, *more)}


def host_of(header: str) -> str | None:
    """Return the name in a header Host, in small letters and without the port; None if it is no name."""
    try:
        found = urlsplit(f"//{header}")
        found.port  # noqa: B018 - it raises ValueError for a port that is no number
    except ValueError:
        return None
    if found.path or found.query or found.fragment or found.username is not None:
        return None
    return (found.hostname or "").rstrip(".") or None


def check_host() -> None:
    """Refuse a request for a foreign name. Runs before every request. Raises ApiError 421, 400 without a name.

    No browser can reach a Unix socket. At the agents' address, a certificate says who calls.
    """
    environ = request.environ
    header = environ.get("HTTP_HOST")
    if not environ.get("REMOTE_ADDR") or is_agents_address(environ):
        return
    if header is None:
        if environ.get("SERVER_PROTOCOL") == "HTTP/1.0":
            return  # no browser sends it
        raise ApiError(400, "no-host", "send the header Host", "Host")
    name = host_of(header)
    if name is None or not (name in services().hosts or _is_own_address(name, environ)):
        raise ApiError(
            421,
            "foreign-host",
            f"this server does not answer for the host {header[:80]!r}; add its name to the setting allowed_hosts"
            " (--allowed-hosts)",
            "Host",
        )


def _is_own_address(name: str, environ: Mapping[str, Any]) -> bool:
    """Return whether the name is the address at which this very connection came in."""
    try:
        own = ipaddress.ip_address(str(environ.get("SERVER_NAME", "")).partition("%")[0])
        return ipaddress.ip_address(name) == own
    except ValueError:
        return False
