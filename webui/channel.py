# SPDX-License-Identifier: Apache-2.0
"""The connection that a request came in on, as the server's front hands it to the views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHANNEL = "sluice.channel"
"""Key of the WSGI environment, and of the ASGI scope's extensions."""


@dataclass(frozen=True)
class Channel:
    """A connection."""

    is_agents: bool = False
    """It came in at the agents' address, over TLS."""
    is_unix: bool = False
    """It came in at the Unix socket."""
    certificate: bytes | None = None
    """The caller's verified certificate (DER); None without one."""

    @property
    def is_trusted(self) -> bool:
        """Whether only a machine with a certificate, or a program of this machine, can have it."""
        return self.is_unix or self.certificate is not None


def channel_of(environ: Mapping[str, Any]) -> Channel:
    """Return the request's connection; a plain one if no front has served it."""
    found: Channel = environ.get(CHANNEL) or Channel()
    return found
