# SPDX-License-Identifier: Apache-2.0
"""Who is at the other end of a connection, and how many connections and event streams may be open."""

import ipaddress
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from cryptography import x509

from sluice.webui.api import ApiError

# ── The other end: a certificate, or a user of this machine, as the kernel says ──────────────────────────────────────


Address: TypeAlias = tuple[str, int]
CHANNEL = "sluice.channel"
"""Key of the WSGI environment: the Channel."""
STREAM = "sluice.event-stream"
"""Key of the WSGI environment: the stream that the server must send after the head of the answer."""
PLACE = "sluice.stream-place"
"""Key of the WSGI environment: the function that gives the place back which the server has taken for the stream."""
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
    channel: Channel = environ.get(CHANNEL) or Channel()
    return channel


def uid_of(connection: socket.socket) -> int | None:
    """Return the user of this machine at the other end; None if there is none, or the connection has ended."""
    try:
        if connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", credentials)[1])
        client, server = connection.getpeername()[:2], connection.getsockname()[:2]
        wanted = [_entry(client), _entry(server)]
        table = _TABLES[ipaddress.ip_address(client[0]).version]
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[7])
    except OSError:
        pass
    return None


def _entry(address: Address) -> str:
    """Return an address as the table has it: words of four bytes in the machine's order, in hexadecimal."""
    packed = ipaddress.ip_address(address[0]).packed
    words = (packed[i : i + 4] for i in range(0, len(packed), 4))
    ordered = "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words)
    return f"{ordered}:{address[1]:04x}".upper()


def peer_certificate(environ: Mapping[str, Any]) -> x509.Certificate | None:
    """Return the verified certificate of the caller, None without one."""
    certificate = channel_of(environ).certificate
    return x509.load_der_x509_certificate(certificate) if certificate else None


def is_agents_address(environ: Mapping[str, Any]) -> bool:
    """Return whether the request came in at the agents' address."""
    return channel_of(environ).is_agents


# ── Places for connections and event streams ─────────────────────────────────────────────────────────────────────────


SHARE_OF_ONE = 0.25
"""The share of all connections that one address of another machine may have."""
MOST_STREAMS = 1000
SHARE_WITHOUT_TOKEN = 0.0625
"""The share of the streams that clients without a token may have."""


class Visitor(Protocol):
    """An open connection."""

    @property
    def address(self) -> str:
        """The caller's; empty for a Unix socket."""

    def make_room(self) -> None:
        """Close the connection, which waits for a request."""


class ConnectionPlaces:
    """Counts the open connections of one kind of listener. One thread uses it.

    A newcomer takes the place of the connection that has waited longest for its request. If every connection has a
    request, the newcomer must come back later.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_one = max(1, int(most * SHARE_OF_ONE))
        self._inside: set[Visitor] = set()
        self._of_address: Counter[str] = Counter()
        self._waiting: dict[Visitor, None] = {}
        """Those without a request, longest first."""

    def __len__(self) -> int:
        return len(self._inside)

    def enter(self, visitor: Visitor) -> bool:
        """Count a new connection, which waits for its request. Returns False if there is no room for it."""
        address = visitor.address
        # A proxy or a tunnel on this machine speaks for many, and so does a Unix socket.
        is_local = not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback
        too_many_of_one = not is_local and self._of_address[address] >= self._most_of_one
        if too_many_of_one or len(self._inside) >= self._most:
            candidates = (each for each in self._waiting if not too_many_of_one or each.address == address)
            longest = next(candidates, None)
            if longest is None:
                return False
            self.leave(longest)
            longest.make_room()
        self._inside.add(visitor)
        self._of_address[address] += 1
        self._waiting[visitor] = None
        return True

    def wait(self, visitor: Visitor) -> None:
        """Note that the connection has no request now."""
        if visitor in self._inside:
            self._waiting[visitor] = None

    def serve(self, visitor: Visitor) -> None:
        """Note that the connection has a request: it keeps its place until the answer."""
        self._waiting.pop(visitor, None)

    def leave(self, visitor: Visitor) -> None:
        """Forget a connection. A second time changes nothing."""
        if visitor not in self._inside:
            return
        self._inside.remove(visitor)
        self._waiting.pop(visitor, None)
        self._of_address[visitor.address] -= 1
        if not self._of_address[visitor.address]:
            del self._of_address[visitor.address]


class StreamPlaces:
    """Counts the open event streams of this process. Thread-safe."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = {True: most, False: max(1, int(most * SHARE_WITHOUT_TOKEN))}
        self._open = {True: 0, False: 0}
        self._lock = threading.Lock()

    def take(self, has_token: bool) -> Callable[[], None]:
        """Take a place. Returns the function that gives it back, once. Raises ApiError 429 if there is none."""
        with self._lock:
            if self._open[has_token] >= self._most[has_token]:
                whose, remedy = ("with", "") if has_token else ("without", "send a token, or ")
                raise ApiError(
                    429,
                    "too-many-streams",
                    f"{self._most[has_token]} event streams {whose} a token are open already; try again later, "
                    f"{remedy}raise the setting most_streams",
                )
            self._open[has_token] += 1
        taken = [has_token]

        def leave() -> None:
            with self._lock:
                if taken:
                    self._open[taken.pop()] -= 1

        return leave
