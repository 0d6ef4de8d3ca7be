# SPDX-License-Identifier: Apache-2.0
"""Who is at the other end of a connection: a certificate, or a user of this machine, as the kernel says."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Address: TypeAlias = tuple[str, int]
CHANNEL = "sluice.channel"
"""Key of the WSGI environment: the Channel."""
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}


@dataclass(frozen=True)
class Channel:
    """The connection that a request came in on."""

    is_agents: bool = False
    """It came in at the agents' address, over TLS."""
    is_unix: bool = False
    """It came in at the Unix socket."""
    uid: Callable[[], int | None] | None = None
    """Returns the caller's user id on this machine, None if the kernel names none. Without a server, no function."""
    certificate: bytes | None = None
    """The caller's verified certificate (DER); None without one."""

    @property
    def is_trusted(self) -> bool:
        """Whether only a machine with a certificate, or a program of this machine, can have it."""
        return self.is_unix or self.certificate is not None


def channel_of(environ: Mapping[str, Any]) -> Channel:
    """Return the request's connection; a plain one if no server has put it there."""
    found: Channel = environ.get(CHANNEL) or Channel()
    return found


def uid_of(connection: socket.socket) -> int | None:
    """Return the user of this machine at the other end; None if there is none, or the connection has ended."""
    try:
        if connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", credentials)[1])
        return _uid_at_loopback(connection.getpeername()[:2], connection.getsockname()[:2])
    except OSError:
        return None


def _uid_at_loopback(client: Address, server: Address) -> int | None:
    wanted = [_entry(client), _entry(server)]
    table = _TABLES[ipaddress.ip_address(client[0]).version]
    for line in table.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def _entry(address: Address) -> str:
    """Return an address as the table has it: words of four bytes in the machine's order, in hexadecimal."""
    packed = ipaddress.ip_address(address[0]).packed
    words = (packed[i : i + 4] for i in range(0, len(packed), 4))
    ordered = "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words)
    return f"{ordered}:{address[1]:04x}".upper()
