# SPDX-License-Identifier: Apache-2.0
"""Who sends a request, and whether it may send this document.

| came in | agents' documents | everything else |
| --- | --- | --- |
| Unix socket, from root or the web process's user | any name | yes |
| plain address, the same on this machine | any name | yes |
| either, from other users of this machine | 403 | yes |
| plain address, from another machine or through a proxy | 403 | yes |
| agents' address, with a certificate | its own name and kind | the topology; otherwise 403 |
| agents' address, without one | only enrolment | 403 |

And which records a host can have made, under which names the web process answers, and how many connections may be
open.
"""

import ipaddress
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from cryptography import x509
from flask import request

from sluice.policy.wire.access import KINDS, Holder
from sluice.policy.wire.agents import LivingConnection
from sluice.policy.wire.records import UNKNOWN_TO_A_RECEIVER, FlowRecord
from sluice.runtime.certificates import holder_of
from sluice.runtime.settings.kinds import split_address
from sluice.store.access import find_certificate
from sluice.store.flows import Conflict
from sluice.webui.api import ApiError
from sluice.webui.authority import serial_of
from sluice.webui.services import services

CHANNEL = "sluice.channel"
"""Key of the WSGI environment: the Channel."""
STREAM = "sluice.event-stream"
"""Key of the WSGI environment: the stream that the server must send after the head of the answer."""
PLACE = "sluice.stream-place"
"""Key of the WSGI environment: the function that gives the place back which the server has taken for the stream."""
_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ANY = 4, 20, 1, b"\0" * 4 + b"\xff" * 8
"""The netlink family of sockets, its request for one connection, the flag of a request, and any interface and cookie
(Linux, sock_diag(7))."""


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


def channel() -> Channel:
    """Return the request's connection; a plain one if no server has put it there."""
    of_request: Channel = request.environ.get(CHANNEL) or Channel()
    return of_request


def uid_of(connection: socket.socket) -> int | None:
    """Return the user of this machine at the other end; None if there is none, or the connection has ended."""
    with suppress(OSError):
        if connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", credentials)[1])
        return _tcp_user(connection)
    return None


def _tcp_user(connection: socket.socket) -> int | None:
    """Return the user of the program at the other end; None if none has it open. Raises OSError.

    The kernel looks it up by its hash. /proc/net/tcp takes milliseconds to read, and longer with more connections.
    """
    client, server = connection.getpeername(), connection.getsockname()
    packed = [socket.inet_pton(connection.family, end[0]) for end in (client, server)]
    ends = struct.pack("!HH16s16s", client[1], server[1], *packed)
    asked = struct.pack("=BBxxI", connection.family, socket.IPPROTO_TCP, 0) + ends + _ANY
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 0, 0) + asked)
        answer = kernel.recv(4096)
    if answer[20:56] != ends:  # an error, or a listener at the other end's port
        return None
    uid, inode = struct.unpack_from("=II", answer, 80)
    return int(uid) if inode else None  # once the program has closed it, older kernels say root


# ── Places for connections ───────────────────────────────────────────────────────────────────────────────────────────


SHARE_OF_ONE = 0.25
"""The share of all connections that one address of another machine may have."""


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


# ── Who may send what ────────────────────────────────────────────────────────────────────────────────────────────────


_HOST = KINDS[0]

ENROLS = frozenset({"enrolment.read_authority", "enrolment.enrol"})
"""The endpoints that need no certificate; they are served at the agents' address only."""
AGENT_DOCUMENTS = frozenset({"agents.heartbeat", "flows.deliver_flows"})
"""The endpoints that only agents use."""
AGENTS_READ = frozenset({"network.topology"})
"""What agents read besides the answers to their heartbeats."""
RENEWS = "enrolment.renew"
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip")


def check_channel() -> None:
    """Refuse a request at the wrong address. Runs before every request. Raises ApiError 403."""
    endpoint = request.endpoint or ""
    if channel().is_agents:
        if endpoint not in (AGENT_DOCUMENTS | AGENTS_READ | ENROLS | {RENEWS}):
            raise ApiError(
                403, "agents-only", "this address serves agents only; the dashboard has another one"
            )
    elif endpoint in ENROLS or endpoint == RENEWS:
        raise ApiError(403, "agents-only", "agents enrol at the address of --agents, over TLS")
    elif endpoint in AGENT_DOCUMENTS and not _from_this_machine():
        raise _refused(
            request.remote_addr or "?",
            "agents-only",
            "agents of other machines use the address of --agents, with a certificate: `sluice enrol NAME`",
        )
    elif endpoint in AGENT_DOCUMENTS:  # only root and the web process's own user may speak for agents here
        uid_of = channel().uid
        uid = uid_of() if uid_of else os.geteuid()
        if uid is None:  # nobody waits for the answer, and nobody is to blame
            raise ApiError(403, "agents-only", "the connection ended before its user was known")
        if uid not in (0, os.geteuid()):
            raise _refused(
                f"user-{uid}",
                "agents-only",
                f"the user with the id {uid} may not send agents' documents; root and the user of the web process may",
            )


def _from_this_machine() -> bool:
    if any(name in request.headers for name in _FORWARDED):
        return False
    address = request.remote_addr
    if not address:
        return True  # a Unix socket
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True  # the name of a Unix socket


def holder() -> Holder | None:
    """Return the agent whose certificate came with the request; None at an address without TLS.

    Raises ApiError 401 without a certificate, and 403 for one that is revoked or unknown.
    """
    if not channel().is_agents:
        return None
    presented = channel().certificate
    if presented is None:
        raise ApiError(401, "no-certificate", "this agent has no certificate: enrol it with `sluice enrol`")
    certificate = x509.load_der_x509_certificate(presented)
    agent = holder_of(certificate)
    row = find_certificate(services().engine, serial_of(certificate))
    if row is None:
        raise _refused(
            agent.name,
            "certificate-unknown",
            "the store does not know this agent's certificate; enrol it again",
        )
    if row.revoked_at is not None:
        raise _refused(
            agent.name, "certificate-revoked", "this agent's certificate was revoked; enrol it again"
        )
    return agent


def check_agent(name: str, kind: str) -> None:
    """Refuse a heartbeat under another name or of another kind than the certificate's. Raises ApiError 403."""
    agent = holder()
    if agent is not None and agent != Holder(name, kind):
        raise _refused(
            agent.name,
            "other-agent",
            f"the certificate is of the agent {agent.name} of kind {agent.kind}, not of {name} of kind {kind}",
        )


def check_connections(name: str, connections: Iterable[LivingConnection]) -> None:
    """Refuse a heartbeat with connections that have no end at the certificate's host. Raises ApiError 403."""
    if not channel().is_agents:
        return
    for index, connection in enumerate(connections):
        if name not in (connection.src, connection.dst):
            raise _refused(name, "other-agent", no_end(name, connection.src, connection.dst), index)


def own_records(records: Sequence[FlowRecord]) -> Sequence[FlowRecord]:
    """Return the records under the ids with which the store keeps them.

    The id of a record that came with a certificate begins with its host's name, so no host can take another's
    id. Raises ApiError 403 for records that this host cannot have made.
    """
    agent = holder()
    if agent is None:
        return records
    if agent.kind != _HOST:
        raise _refused(agent.name, "other-agent", f"agents of kind {agent.kind} deliver no flow records")
    for index, record in enumerate(records):
        if problem := foreign_record(agent.name, record):
            raise _refused(agent.name, "other-agent", problem, index)
    return [replace(record, id=f"{agent.name}@{record.id}") for record in records]


def refuse_conflict(records: Sequence[FlowRecord], conflicts: Sequence[Conflict]) -> ApiError:
    """Report records that contradict the store, and return the error for their sender."""
    first = conflicts[0]
    record = first.record
    places = (index for index, delivered in enumerate(records) if delivered.id == record.id)
    problem = f"another record with the id {record.id} is in the store, and its {first.field} differs"
    who = agent.name if (agent := holder()) else record.src
    services().refusals.note(who, f"{problem}; {len(conflicts)} such records in one delivery")
    return ApiError(409, "record-conflict", problem, first.field, next(places, None))


def _refused(who: str, code: str, problem: str, index: int | None = None) -> ApiError:
    services().refusals.note(who, problem)
    return ApiError(403, code, problem, index=index)


# ── Which records a host can have made. Pure. ────────────────────────────────────────────────────────────────────────
#
# A sender's agent records what the host sent. Only of a watched flow from a host without an agent, the receiver's agent
# makes the record. It lacks what only a sender can know (docs/explanation/flow-watch.md).


def foreign_record(host: str, record: FlowRecord) -> str:
    """Return why the host's agent cannot have made this record; empty if it can."""
    if record.src == host:
        return ""
    if record.dst != host:
        return no_end(host, record.src, record.dst)
    if not record.is_a_receivers:
        return f"{host} is only the receiver of the flow {record.src} > {record.dst}: its sender records it"
    fields = [name for name in UNKNOWN_TO_A_RECEIVER if getattr(record, name) is not None]
    return f"{host} is only the receiver of the flow, so its record cannot have {fields[0]}" if fields else ""


def no_end(host: str, src: str, dst: str) -> str:
    """Return the reason why a flow does not concern a host."""
    return f"the certificate is of {host}, which is no end of the flow {src} > {dst}"


# ── The names under which the web process answers ────────────────────────────────────────────────────────────────────
#
# A page of another site can make its own name point at this machine (DNS rebinding). The browser then lets that page
# read the answers. It sends the page's name in the header Host, so a request with a foreign name gets 421.


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def allowed_hosts(listen: Iterable[str], more: Iterable[str]) -> frozenset[str]:
    """Return the names for these addresses to listen on (HOST:PORT) and for these other names, in small letters."""
    listening = (split_address(address)[0] for address in listen)
    return _LOOPBACK | {name.lower().rstrip(".") for name in (*listening, *more)}


def host_of(header: str) -> str | None:
    """Return the name in a header Host, in small letters and without the port; None if it is no name."""
    try:
        url = urlsplit(f"//{header}")
        url.port  # noqa: B018 - it raises ValueError for a port that is no number
    except ValueError:
        return None
    if url.path or url.query or url.fragment or url.username is not None:
        return None
    return (url.hostname or "").rstrip(".") or None


def check_host() -> None:
    """Refuse a request for a foreign name. Runs before every request. Raises ApiError 421, 400 without a name.

    No browser can reach a Unix socket. At the agents' address, a certificate says who calls.
    """
    environ = request.environ
    header = environ.get("HTTP_HOST")
    if not environ.get("REMOTE_ADDR") or channel().is_agents:
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
