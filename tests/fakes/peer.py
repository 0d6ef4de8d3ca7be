# SPDX-License-Identifier: Apache-2.0
"""The switch's end of an OpenFlow connection. A test chooses its answers byte by byte."""

import socket
import struct
import time
from collections.abc import Callable

from sluice.controller.openflow.frames import Frame, Framer, MessageType, message

_BUNDLE_CONTROL = 2300
_BUNDLE_REPLY_OF = {0: 1, 2: 3, 4: 5, 6: 7}


def multipart_reply(request: Frame, body: bytes = b"", more: bool = False) -> bytes:
    stats = struct.unpack_from("!H", request.data, 8)[0]
    head = struct.pack("!HHxxxx", stats, int(more))
    return message(MessageType.MULTIPART_REPLY, head + body, request.xid)


def leaves_requests_alone(request: Frame) -> bytes | None:
    """Leave the answer to the peer."""
    return None


class Peer:
    """A peer that connects, sends its hello, and answers every request like a switch without rules.

    The peer sends what `answer` returns, or its own answer if that is None.
    """

    def __init__(
        self,
        port: int,
        dpid: int,
        answer: Callable[[Frame], bytes | None] = leaves_requests_alone,
        wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain,
    ) -> None:
        """`wrap` puts TLS around the connection."""
        self.dpid, self._answer = dpid, answer
        self._socket = wrap(socket.create_connection(("127.0.0.1", port)))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._framer = Framer()
        self.received: list[Frame] = []
        self.closed = False
        self.send(message(MessageType.HELLO))

    def send(self, data: bytes) -> None:
        self._socket.settimeout(300)
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()

    def run(self, until: Callable[[], object], timeout_s: float = 60.0) -> None:
        """Answer until a condition holds or the controller closes the connection. Raises TimeoutError otherwise."""
        deadline = time.monotonic() + timeout_s
        while not (until() or self.closed):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the condition does not hold within {timeout_s:.0f} s")
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
            case MessageType.ECHO_REQUEST:
                return message(MessageType.ECHO_REPLY, frame.data[8:], frame.xid)
            case MessageType.FEATURES_REQUEST:
                features = struct.pack("!QIBBxxII", self.dpid, 0, 254, 0, 0, 0)
                return message(MessageType.FEATURES_REPLY, features, frame.xid)
            case MessageType.MULTIPART_REQUEST:
                return multipart_reply(frame)
            case MessageType.BARRIER_REQUEST:
                return message(MessageType.BARRIER_REPLY, b"", frame.xid)
            case MessageType.ROLE_REQUEST:
                return message(MessageType.ROLE_REPLY, frame.data[8:], frame.xid)
            case MessageType.EXPERIMENTER:
                return self._bundle_reply(frame)
        return b""

    def _bundle_reply(self, frame: Frame) -> bytes:
        owner, kind, bundle = struct.unpack_from("!III", frame.data, 8)
        control = struct.unpack_from("!H", frame.data, 20)[0]
        if kind != _BUNDLE_CONTROL:
            return b""
        body = struct.pack("!IIIHH", owner, kind, bundle, _BUNDLE_REPLY_OF[control], 3)
        return message(MessageType.EXPERIMENTER, body, frame.xid)
