# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over asyncio that declares the size of each message by itself, from its Content-Length.

    server = await start_server(handle, "0.0.0.0", 8080)                      # as asyncio.start_server
    server = await loop.create_server(declaring(MyProtocol), "0.0.0.0", 8080)  # any other asyncio server

Every message of a persistent connection becomes a flow of its own, declared before its first byte. A message of
unknown length (chunked, or until the end of the connection) is declared without a size. Without an agent on the
machine, nothing is declared, and the server works all the same.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, cast

from sluice.hostagent.sockets.options import declare, undeclare
from sluice.policy.errors import SluiceError

__all__ = ["MessageSizes", "Piece", "declaring", "start_server"]

LONGEST_HEAD_BYTES = 65_536
UNKNOWN = 0
"""The size of a message that ends with a chunk or with the connection."""

_START = re.compile(rb"HTTP/1\.\d (\d{3})|[A-Z]+ \S+ HTTP/1\.\d\r\n")
_STATUS_LINE = b"HTTP/1."
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_CODED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_END = b"\r\n\r\n"
_BODILESS = (b"204", b"304")

_RECORD_PAYLOAD_BYTES = 16_384
_RECORD_BYTES = {"TLSv1.3": 22}
"""Of a record of TLS 1.3: a header of 5 bytes, a type of 1, and an authentication tag of 16."""
_MOST_RECORD_BYTES = 29
"""Of a record of TLS 1.2: header, explicit nonce of 8, tag."""
_MORE_RECORDS = 2
"""A program that writes a head and a body apart makes a record more, and a layer between may cut one."""

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Piece(NamedTuple):
    """A part of what a program writes."""

    size_bytes: int | None
    """The size to declare before the piece, with the head; UNKNOWN, or None if no message begins here."""
    data: bytes


class MessageSizes:
    """Cuts what a program writes to one connection at the beginnings of messages.

    A write that begins like a message is taken for one. So the answer to HEAD, whose length is that of a body that
    does not follow, does not confuse it. A message inside a body can at worst get a size of its own.
    """

    def __init__(self) -> None:
        self._head = b""
        """The part of a head whose end has not been written."""
        self._left_bytes: int | None = 0
        """Of the body; None if its length is unknown."""

    def pieces(self, data: bytes) -> Iterator[Piece]:
        """Yield the parts of a write. They are the same bytes, but an unfinished head waits for its end."""
        data = self._head + data
        while data:
            if self._head or self._left_bytes == 0 or _START.match(data):
                self._head = b""
                piece = self._message(data)
            else:
                piece = self._body(data)
            if piece is None:
                return
            yield piece
            data = data[len(piece.data) :]

    def rest(self) -> bytes:
        """Return the unfinished head, which no one will finish."""
        head, self._head = self._head, b""
        return head

    def _message(self, data: bytes) -> Piece | None:
        """Return the head at the beginning of `data` and the body that follows it; None if the head has no end yet."""
        end, start = data.find(_END), _START.match(data)
        may_continue = start is not None or _STATUS_LINE.startswith(data[: len(_STATUS_LINE)])
        if end < 0 and may_continue and len(data) < LONGEST_HEAD_BYTES:
            self._head = data
            return None
        if end < 0 or start is None:  # not HTTP/1, for example a WebSocket
            self._left_bytes = None
            return Piece(UNKNOWN, data)
        head = data[: end + len(_END)]
        self._left_bytes = _body_bytes(head, start[1])
        size = UNKNOWN if self._left_bytes is None else len(head) + self._left_bytes
        body = self._body(data[len(head) :])
        return Piece(size, head + body.data)

    def _body(self, data: bytes) -> Piece:
        if self._left_bytes is None:
            return Piece(None, data)
        part = data[: self._left_bytes]
        self._left_bytes -= len(part)
        return Piece(None, part)


def _body_bytes(head: bytes, status: bytes | None) -> int | None:
    """Return the length of the body after a head, None if the head does not say. Requests have no `status`."""
    if status is not None and (status in _BODILESS or status.startswith(b"1")):
        return 0
    if _CODED.search(head):
        return None
    length = _LENGTH.search(head)
    if length is not None:
        return int(length[1])
    return None if status is not None else 0


def declaring(factory: ProtocolFactory) -> ProtocolFactory:
    """Return a protocol factory for create_server() or create_connection() whose connections declare their messages."""

    def protocol() -> asyncio.BaseProtocol:
        made = factory()
        connected = made.connection_made

        def connection_made(transport: asyncio.BaseTransport) -> None:
            connected(cast("asyncio.Transport", _Transport(transport)))

        made.connection_made = connection_made  # type: ignore[method-assign]
        return made

    return protocol


async def start_server(handler: Handler, host: str, port: int, **options: Any) -> asyncio.Server:
    """Do what asyncio.start_server does, with connections that declare the messages that `handler` writes."""

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), handler)

    return await asyncio.get_running_loop().create_server(declaring(protocol), host, port, **options)


class _Transport:
    """A transport that declares each message that the program writes. All else is the inner transport's."""

    def __init__(self, inner: asyncio.BaseTransport) -> None:
        self._inner = cast("asyncio.Transport", inner)
        self._sizes = MessageSizes()
        sock = inner.get_extra_info("socket")
        self._sock = sock if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for piece in self._sizes.pieces(bytes(data)):
            if piece.size_bytes is not None:
                self._declare(piece.size_bytes)
            self._inner.write(piece.data)

    def writelines(self, data: Any) -> None:
        self.write(b"".join(data))

    def write_eof(self) -> None:
        self._flush()
        self._inner.write_eof()

    def close(self) -> None:
        self._flush()
        self._inner.close()

    def _flush(self) -> None:
        head = self._sizes.rest()
        if head:
            self._inner.write(head)

    def _declare(self, size_bytes: int) -> None:
        """Declare a message. While the transport holds bytes of the last one, they would count as this one's."""
        if self._sock is None or self._inner.get_write_buffer_size():
            return
        with suppress(SluiceError, OSError):  # no agent, or the connection has just ended
            if size_bytes == UNKNOWN:
                undeclare(self._sock)
                return
            secured = self._inner.get_extra_info("ssl_object")
            if secured is not None:
                size_bytes = tls_bytes(secured.version(), size_bytes)
            declare(self._sock, size_bytes=size_bytes)


def tls_bytes(version: str | None, size_bytes: int) -> int:
    """Return how many bytes of TCP this many bytes of a program take under a version of TLS (None: unknown), about.

    `version` is that of ssl.SSLSocket.version(). The result is rather too large than too small.
    """
    records = -(-size_bytes // _RECORD_PAYLOAD_BYTES) + _MORE_RECORDS
    return size_bytes + records * _RECORD_BYTES.get(version or "", _MOST_RECORD_BYTES)
