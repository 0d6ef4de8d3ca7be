# SPDX-License-Identifier: Apache-2.0
"""The other end of an OpenFlow connection, byte by byte: a switch that answers as it is told to."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

from controller.openflow import frames as wire
from controller.openflow.frames import Frame, Framer

FEATURES_REQUEST, MULTIPART_REQUEST, BARRIER_REQUEST, ROLE_REQUEST = 5, 18, 20, 24
_BUNDLE_REPLY_OF = {0: 1, 2: 3, 4: 5, 6: 7}


def message(kind: int, body: bytes = b"", xid: int = 1, version: int = wire.VERSION) -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body


def multipart_reply(request: Frame, body: bytes = b"", more: bool = False) -> bytes:
    stats = struct.unpack_from("!H", request.data, 8)[0]
    head = struct.pack("!HHxxxx", stats, int(more))
    return message(wire.MULTIPART_REPLY, head + body, request.xid)


class Peer:
    """Connects, greets, and answers every request as a switch without rules would.

    `answer` may take a request over: what it returns is sent instead; None leaves the request to the peer.
    """

    def __init__(
        self,
        port: int,
        dpid: int,
        answer: Callable[[Frame], bytes | None] = lambda _: None,
        wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain,
    ) -> None:
        """`wrap` puts TLS around the connection."""
        self.dpid, self._answer = dpid, answer
        self._socket = wrap(socket.create_connection(("127.0.0.1", port)))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._framer = Framer()
        self.received: list[Frame] = []
        self.closed = False
        self.send(message(wire.HELLO))

    def send(self, data: bytes) -> None:
        self._socket.settimeout(20)
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()

    def run(self, until: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Answer until a condition holds or the controller has hung up; TimeoutError otherwise."""
        deadline = time.monotonic() + timeout_s
        while not (until() or self.closed):
            if time.monotonic() > deadline:
                raise TimeoutError("the controller did not do what was expected")
            self._socket.settimeout(0.02)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            except ConnectionError:
                data = b""
            self.closed = not data
            for frame in self._framer.feed(data):
                self.received.append(frame)
                if reply := self._reply(frame):
                    self._try_to_send(reply)

    def _try_to_send(self, data: bytes) -> None:
        try:
            self.send(data)
        except ConnectionError:
            self.closed = True

    def _reply(self, frame: Frame) -> bytes:
        chosen = self._answer(frame)
        if chosen is not None:
            return chosen
        match frame.kind:
            case wire.ECHO_REQUEST:
                return message(wire.ECHO_REPLY, frame.data[8:], frame.xid)
            case _ if frame.kind == FEATURES_REQUEST:
                return message(
                    wire.FEATURES_REPLY, struct.pack("!QIBBxxII", self.dpid, 0, 254, 0, 0, 0), frame.xid
                )
            case _ if frame.kind == MULTIPART_REQUEST:
                return multipart_reply(frame)
            case _ if frame.kind == BARRIER_REQUEST:
                return message(wire.BARRIER_REPLY, b"", frame.xid)
            case _ if frame.kind == ROLE_REQUEST:
                return message(wire.ROLE_REPLY, frame.data[8:], frame.xid)
            case wire.EXPERIMENTER:
                return self._bundle_reply(frame)
        return b""

    def _bundle_reply(self, frame: Frame) -> bytes:
        owner, kind, bundle = struct.unpack_from("!III", frame.data, 8)
        control = struct.unpack_from("!H", frame.data, 20)[0]
        if kind != 2300:
            return b""
        body = struct.pack("!IIIHH", owner, kind, bundle, _BUNDLE_REPLY_OF[control], 3)
        return message(wire.EXPERIMENTER, body, frame.xid)
