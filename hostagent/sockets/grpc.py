# SPDX-License-Identifier: Apache-2.0
"""A gRPC server that declares the response of each unary call: its size, and the deadline of the call.

    server = grpc.server(ThreadPoolExecutor(), interceptors=[Declaring()])

Methods need no change: the deadline is the one that the client gave. Without an agent on the machine, nothing is
declared, and the server works all the same. This module alone needs the package grpcio.

HTTP/2 mixes the responses of one connection. A response that begins before the one before it has arrived is declared as
a flow of which nothing is known. So clients that have several calls under way use several connections.
"""

from __future__ import annotations

import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

import grpc

from sluice.hostagent.sockets.errors import WrongField
from sluice.hostagent.sockets.options import declare, state, undeclare
from sluice.hostagent.sockets.tls import tls_bytes
from sluice.policy.errors import SluiceError

__all__ = ["Declaring"]

_FRAME_BYTES, _FRAME_PAYLOAD_BYTES = 9, 16_384
_HEAD_BYTES = 160
"""The response's head and trailer, and the prefix of its message."""
_MOST_CONNECTIONS = 4096
_DESCRIPTORS = Path("/proc/self/fd")

Address = tuple[str, int]


class Declaring(grpc.ServerInterceptor):  # type: ignore[misc]
    """An interceptor for grpc.server()."""

    def __init__(self) -> None:
        self._connections = _Connections()

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Return the method's handler, with responses that are declared. Methods with streams stay as they are."""
        handler = continuation(details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler

        def serve(request: Any, context: Any) -> Any:
            response = handler.unary_unary(request, context)
            serialize = handler.response_serializer
            data = response if serialize is None else serialize(response)
            with suppress(SluiceError, OSError):  # no agent, or the connection has just ended
                self._connections.declare(context, len(data))
            return data

        return grpc.unary_unary_rpc_method_handler(serve, handler.request_deserializer, None)


@dataclass
class _Connection:
    descriptor: int
    least_bytes: int
    """The bytes after which the last flow has certainly arrived."""


class _Connections:
    """The sockets of a server, which gRPC does not show: found by the address of the peer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Address, _Connection] = OrderedDict()

    def declare(self, context: Any, message_bytes: int) -> None:
        peer = address_of(context.peer())
        if peer is None:
            return
        with self._lock, self._socket(peer) as (sock, connection):
            if state(sock).acked_bytes < connection.least_bytes:
                undeclare(sock)
            else:
                _declare(
                    sock, wire_bytes(message_bytes, bool(context.auth_context())), context.time_remaining()
                )
            connection.least_bytes = message_bytes

    @contextmanager
    def _socket(self, peer: Address) -> Iterator[tuple[socket.socket, _Connection]]:
        """Give gRPC's own socket: a duplicate would keep the connection open after gRPC has closed it."""
        known = self._known.get(peer)
        sock = None if known is None else _opened(known.descriptor, peer)
        if known is None or sock is None:
            sock = next(filter(None, (_opened(fd, peer) for fd in _descriptors())), None)
            if sock is None:
                raise SluiceError(f"no socket of this process has the peer {peer[0]} port {peer[1]}")
            known = self._known[peer] = _Connection(sock.fileno(), 0)
        self._known.move_to_end(peer)
        if len(self._known) > _MOST_CONNECTIONS:
            self._known.popitem(last=False)
        try:
            yield sock, known
        finally:
            sock.detach()


def _declare(sock: socket.socket, size_bytes: int, left_s: float | None) -> None:
    if left_s is not None:
        with suppress(WrongField):  # the deadline is over, or no link could meet it
            declare(sock, size_bytes=size_bytes, deadline_s=left_s)
            return
    declare(sock, size_bytes=size_bytes)


def wire_bytes(message_bytes: int, secured: bool) -> int:
    """Return how many bytes of TCP a response takes, about."""
    frames = message_bytes // _FRAME_PAYLOAD_BYTES + 1
    size_bytes = message_bytes + _HEAD_BYTES + _FRAME_BYTES * frames
    return tls_bytes(None, size_bytes) if secured else size_bytes


def address_of(peer: str) -> Address | None:
    """Return host and port of a peer as gRPC writes it, for example "ipv4:10.0.0.1:5000"; None if it is no such."""
    family, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """Return an address without the form that IPv4 has on an IPv6 socket."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _descriptors() -> list[int]:
    return [int(path.name) for path in _DESCRIPTORS.iterdir()]


def _opened(descriptor: int, peer: Address) -> socket.socket | None:
    """Return the socket of a descriptor if it is a connection to this peer. Its owner is gRPC: detach it."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return None
    with suppress(OSError, ValueError):
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            host, port = sock.getpeername()[:2]
            if (_plain(host), port) == peer:
                return sock
    sock.detach()
    return None
