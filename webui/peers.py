# SPDX-License-Identifier: Apache-2.0
"""Which user of this machine is at the other end of a connection, as the kernel says."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}


def uid_at_unix_socket(connection: socket.socket) -> int | None:
    """Return the user who connected to a Unix socket; None if the connection has ended."""
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


def uid_at_loopback(client: Address, server: Address) -> int | None:
    """Return the user of this machine who owns the connection's other end; None if there is none."""
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
