# SPDX-License-Identifier: Apache-2.0
"""One OpenFlow connection: os-ken's handshake behind a reader that checks every message.

os-ken 4.2's own server has defects with native threads. It never announces a dead connection and
leaks its two threads. It logs a malformed message in full and passes over it, and loops without
end on a length of 0. `send` blocks its caller when a switch stops reading. So a connection here
has a reader thread and a writer thread of its own, and only the handshake reaches os-ken's
parsers.

The reader alone parses messages and changes the connection's state, except that any thread may
`close`, which takes effect once. The writer alone writes to the socket. Queues connect them with
the application.

`Listener` accepts connections of switches, one reader thread each.
"""

import errno
import logging
import queue
import select
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import os_ken.base.app_manager  # noqa: F401 (os-ken's modules import each other; this one first)
from os_ken.controller import event, ofp_event
from os_ken.controller.controller import Datapath
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as ofp

from sluice.controller.openflow import answers
from sluice.controller.openflow.frames import VERSION, Frame, Framer, MessageType, ProtocolViolation, message
from sluice.controller.tls import TlsSocket
from sluice.policy.errors import FieldError

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 5.0
ECHO_INTERVAL_S = 1.0
SILENCE_LIMIT_S = 4.0
"""A peer is gone if it sends no whole message for this long, although echo requests reach it."""
SEND_TIMEOUT_S = 5.0
MAX_UNSENT_MESSAGES = 256
_POLL_MS = ECHO_INTERVAL_S * 250
_RECEIVE_BYTES = 1 << 18
_HANDSHAKE_TYPES = (MessageType.ECHO_REQUEST, MessageType.ECHO_REPLY, MessageType.FEATURES_REPLY)


class EventAnswer(event.EventBase):  # type: ignore[misc]
    """A switch has answered."""

    def __init__(self, connection: "Connection", answer: answers.Answer) -> None:
        super().__init__()
        self.connection, self.answer = connection, answer


class Connection(Datapath):  # type: ignore[misc]
    """One switch's connection. `serve` runs it to its end in the thread that calls it."""

    xid: int

    def __init__(self, sock: socket.socket | TlsSocket, address: object) -> None:
        super().__init__(sock, address)
        sock.settimeout(SEND_TIMEOUT_S)
        self._outbox: queue.Queue[tuple[bytes, bool] | None] = queue.Queue(MAX_UNSENT_MESSAGES)
        self._framer, self._answers = Framer(), answers.AnswerReader()
        self._began_s = self.heard_at_s = self._probed_s = time.monotonic()
        """`heard_at_s`: when the last whole message arrived, by the monotonic clock."""
        self.described: answers.PortDescription | None = None
        """The last description of the switch's ports. It belongs to the application's thread."""
        self._closing = threading.Lock()
        self._numbering = threading.Lock()

    def reserve_xids(self, count: int) -> int:
        """Return the first of `count` consecutive transaction ids, which no other message gets."""
        with self._numbering:
            first: int = self.xid + 1 if self.xid + count <= ofp.MAX_XID else 1
            self.xid = first + count - 1
            return first

    def set_xid(self, msg: Any) -> int:
        """Give one of os-ken's messages a transaction id (os-ken's interface)."""
        xid = self.reserve_xids(1)
        msg.set_xid(xid)
        return xid

    def probe(self) -> None:
        """Send an echo request: `heard_at_s` then shows whether the peer answers."""
        self.send_msg(self.ofproto_parser.OFPEchoRequest(self))

    @property
    def host(self) -> str:
        """The peer's address without its port."""
        return str(self.address[0]) if isinstance(self.address, tuple) else ""

    @property
    def place(self) -> str:
        """The peer's address and port."""
        if not isinstance(self.address, tuple):
            return "a local socket"
        return ":".join(map(str, self.address[:2]))

    @property
    def peer(self) -> str:
        """Names the peer in logs."""
        who = f"switch {self.id:#x}" if self.id is not None else "peer"
        return f"{who} at {self.place}"

    def serve(self) -> None:
        """Read until the connection ends, then close it."""
        writer = threading.Thread(target=self._write_loop, name=f"write-{self.address}", daemon=True)
        try:
            if isinstance(self.socket, TlsSocket):
                self.socket.handshake(HANDSHAKE_TIMEOUT_S)
            writer.start()
            self.send_msg(self.ofproto_parser.OFPHello(self))
            self._read_loop()
        except ProtocolViolation as violation:
            log.warning("closing the connection of %s: %s", self.peer, violation)
        except ssl.SSLError as error:
            log.warning("closing the connection of %s: TLS: %s", self.peer, error.reason or error)
        except OSError as error:
            log.info("connection of %s ended: %s", self.peer, error)
        except Exception:
            # os-ken's parsers may raise anything on a malformed message. Only its sender suffers.
            log.exception("closing the connection of %s: cannot handle its message", self.peer)
        finally:
            self.close()
            if writer.ident is not None:
                writer.join()
            self.socket.close()
            self.is_active = False

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────

    def _read_loop(self) -> None:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if isinstance(self.socket, TlsSocket):
            self._take_all(self.socket.received_with_handshake())
        while self.state != DEAD_DISPATCHER:
            if poll.poll(_POLL_MS):
                data = self.socket.recv(_RECEIVE_BYTES)
                if data == b"":
                    return
                self._take_all(data or b"")
            self._watch(time.monotonic())

    def _take_all(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self.heard_at_s = time.monotonic()
            self._take(frame)

    def _watch(self, now_s: float) -> None:
        """Probe a silent peer. End one that stays silent or does not finish the handshake."""
        if self.state == DEAD_DISPATCHER:
            return
        if self.state != MAIN_DISPATCHER and now_s - self._began_s > HANDSHAKE_TIMEOUT_S:
            raise ProtocolViolation(f"no OpenFlow handshake within {HANDSHAKE_TIMEOUT_S:.0f} s")
        if now_s - self.heard_at_s > SILENCE_LIMIT_S:
            raise ProtocolViolation(f"silent for {SILENCE_LIMIT_S:.0f} s")
        if now_s - max(self.heard_at_s, self._probed_s) > ECHO_INTERVAL_S:
            self._probed_s = now_s
            self.probe()

    def _take(self, frame: Frame) -> None:
        if frame.kind == MessageType.HELLO:
            if frame.version < VERSION:
                raise ProtocolViolation(
                    f"hello of version {frame.version:#04x}; OpenFlow 1.3 ({VERSION:#04x}) is needed"
                )
            # Without its elements, because the version in its header is enough.
            hello = message(MessageType.HELLO, xid=frame.xid)
            self._to_os_ken(Frame(VERSION, frame.kind, frame.xid, hello))
        elif frame.version != VERSION:
            raise ProtocolViolation(
                f"message of version {frame.version:#04x} and type {frame.kind} after the hello;"
                f" only {VERSION:#04x} is allowed"
            )
        elif frame.kind in _HANDSHAKE_TYPES:
            self._to_os_ken(frame)
        else:
            if answers.is_port_description(frame):
                self._to_os_ken(frame)
            answer = self._answers.read(frame)
            # Before the handshake only errors count.
            if answer is not None and (
                self.state == MAIN_DISPATCHER or isinstance(answer, answers.ErrorReply)
            ):
                self.ofp_brick.send_event_to_observers(EventAnswer(self, answer), self.state)

    def _to_os_ken(self, frame: Frame) -> None:
        """Make os-ken parse a message, and give it to os-ken's handshake."""
        version, kind, xid, data = frame
        parsed = ofproto_parser.msg(self, version, kind, len(data), xid, bytearray(data))
        if parsed is None:
            raise ProtocolViolation(f"malformed message of type {kind}")
        event = ofp_event.ofp_msg_to_ev(parsed)
        self.ofp_brick.send_event_to_observers(event, self.state)
        for handler in list(self.ofp_brick.get_handlers(event, self.state)):
            handler(event)

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────

    def send(self, buf: bytes, close_socket: bool = False) -> bool:
        """Queue bytes without blocking. Returns False if the connection has ended.

        A peer that does not read is disconnected when its queue is full.
        """
        if self.state == DEAD_DISPATCHER:
            return False
        try:
            self._outbox.put_nowait((bytes(buf), close_socket))
        except queue.Full:
            log.warning(
                "closing the connection of %s: it does not read, and %d messages wait for it",
                self.peer,
                MAX_UNSENT_MESSAGES,
            )
            self.hang_up()
            return False
        return True

    def _write_loop(self) -> None:
        try:
            while (item := self._outbox.get()) is not None:
                data, last = item
                self.socket.sendall(data)
                if last:
                    break
        except OSError as error:
            log.debug("sending to %s: %s", self.peer, error)
        self.hang_up()

    # ── Ending ──────────────────────────────────────────────────────────────────────────────────

    def hang_up(self) -> None:
        """End the connection without blocking: both threads' socket calls return."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("hanging up on %s: %s", self.peer, error)

    def close(self) -> None:
        """Announce the end, once, and make both threads finish.

        The application's own thread must call `hang_up` instead: announcing the end could wait for
        room in that thread's queue.
        """
        with self._closing:
            if self.state == DEAD_DISPATCHER:
                return
            self.set_state(DEAD_DISPATCHER)
        self.hang_up()
        while True:
            try:
                self._outbox.put_nowait(None)
                return
            except queue.Full:
                self._outbox.get_nowait()


# ── Accepting connections ───────────────────────────────────────────────────────────────────────────


MAX_CONNECTIONS = 512
_BACKLOG = 64
_RESOURCE_PAUSE_S = 0.2


def bind(listen: str) -> socket.socket:
    """Return a socket that listens on "ADDRESS:PORT", "[IPv6]:PORT" or "unix:PATH".

    Raises FieldError.
    """
    try:
        if listen.startswith("unix:"):
            path = Path(listen[5:])
            path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(path))
            listener.listen(_BACKLOG)
            return listener
        host, _, port = listen.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except (OSError, ValueError) as error:
        raise FieldError(
            "listen", f"cannot listen on {listen!r}: {error}. Give ADDRESS:PORT or unix:PATH"
        ) from error


class _LocalSocket(socket.socket):
    """A Unix socket that ignores TCP options, because os-ken sets one on every connection."""

    def setsockopt(self, level: int, *option: object) -> None:
        if level != socket.IPPROTO_TCP:
            raise OSError(errno.EOPNOTSUPP, "a Unix socket of the controller has no such option")


class Listener:
    """Accepts switches until it is closed."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """With a `context`, switches must speak TLS."""
        self._listener, self._context = listener, context
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._thread = threading.Thread(target=self._accept_loop, name="accept", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stop accepting and end every connection. Waits at most `timeout_s` for the thread."""
        self._closed.set()
        # Closing a socket does not wake a thread that waits in accept(). Shutting it down does.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout_s)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def _accept_loop(self) -> None:
        while not self._closed.is_set():
            try:
                accepted, address = self._listener.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                log.error("cannot accept a connection: %s", error)
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._closed.wait(_RESOURCE_PAUSE_S)
                continue
            self._admit(accepted, address)

    def _admit(self, accepted: socket.socket, address: object) -> None:
        if accepted.family == socket.AF_UNIX:
            accepted = _LocalSocket(fileno=accepted.detach())
        with self._lock:
            crowded = len(self._connections) >= MAX_CONNECTIONS
        if crowded:
            log.warning("refused a connection from %s: the limit is %d", address, MAX_CONNECTIONS)
            accepted.close()
            return
        reader = threading.Thread(
            target=self._run, args=(accepted, address), name=f"read-{address}", daemon=True
        )
        reader.start()

    def _run(self, accepted: socket.socket, address: object) -> None:
        try:
            sock = TlsSocket(accepted, self._context) if self._context else accepted
            connection = Connection(sock, address)
        except OSError as error:
            log.info("a connection from %s ended before the handshake: %s", address, error)
            accepted.close()
            return
        with self._lock:
            self._connections.add(connection)
        try:
            connection.serve()
        finally:
            with self._lock:
                self._connections.discard(connection)
