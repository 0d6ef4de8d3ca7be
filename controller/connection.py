# SPDX-License-Identifier: Apache-2.0
"""One OpenFlow connection: os-ken's handshake behind a reader that checks every message.

os-ken 4.2's own server has defects with native threads. It never announces a dead connection and
leaks its two threads. It logs a malformed message in full and passes over it, and loops without
end on a length of 0. `send` blocks its caller when a switch stops reading. So a connection here
has a thread of its own, and only the handshake reaches os-ken's parsers.

That thread alone uses the socket, which never blocks, parses messages, and changes the connection's
state, except that any thread may `close`, which takes effect once. A queue takes the messages of the
application, and an event descriptor wakes the thread.

`Listener` accepts connections of switches. With TLS, a switch must show a certificate of the controller's authority.
"""

import errno
import logging
import os
import queue
import select
import socket
import ssl
import threading
import time
import weakref
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
from sluice.policy.errors import FieldError

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 5.0
ECHO_INTERVAL_S = 1.0
SILENCE_LIMIT_S = 4.0
"""A peer is gone if it sends no whole message for this long, although echo requests reach it."""
SEND_TIMEOUT_S = 5.0
"""A peer is gone if it takes no byte of a message for this long."""
MAX_UNSENT_MESSAGES = 256
_POLL_MS = ECHO_INTERVAL_S * 250
_RECEIVE_BYTES = 1 << 18
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_HANDSHAKE_TYPES = (MessageType.ECHO_REQUEST, MessageType.ECHO_REPLY, MessageType.FEATURES_REPLY)


class EventAnswer(event.EventBase):  # type: ignore[misc]
    """A switch has answered."""

    def __init__(self, connection: "Connection", answer: answers.Answer) -> None:
        super().__init__()
        self.connection, self.answer = connection, answer


class _NoOptions:
    """Takes the place of the socket while os-ken sets options, which a Unix socket does not have."""

    def setsockopt(self, *option: object) -> None: ...

    def settimeout(self, timeout_s: float | None) -> None: ...


class Connection(Datapath):  # type: ignore[misc]
    """One switch's connection. `serve` runs it to its end in the thread that calls it."""

    xid: int

    def __init__(self, sock: socket.socket, address: object, context: ssl.SSLContext | None = None) -> None:
        """With a `context`, the peer must speak TLS."""
        super().__init__(_NoOptions(), address)
        self.socket, self._context = sock, context
        self._outbox: queue.Queue[bytes] = queue.Queue(MAX_UNSENT_MESSAGES)
        self._unsent = memoryview(b"")
        """What the peer has not taken yet of the message that is being sent."""
        self._framer, self._answers = Framer(), answers.AnswerReader()
        self._began_s = self.heard_at_s = self._probed_s = self._sent_s = time.monotonic()
        """`heard_at_s`: when the last whole message arrived, by the monotonic clock."""
        self.described: answers.PortDescription | None = None
        """The last description of the switch's ports. It belongs to the application's thread."""
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not at the connection's end: a thread that still sends would write to another one's descriptor.
        weakref.finalize(self, os.close, self._event_fd).atexit = False
        self._has_hung_up = False
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
        """Read and write until the connection ends, then close it."""
        try:
            if self._context is not None:
                self.socket.settimeout(HANDSHAKE_TIMEOUT_S)
                self.socket = self._context.wrap_socket(self.socket, server_side=True)
            self.socket.setblocking(False)
            self.send_msg(self.ofproto_parser.OFPHello(self))
            self._loop()
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
            self.socket.close()
            self.is_active = False

    def _loop(self) -> None:
        poll = select.poll()
        poll.register(self._event_fd, select.POLLIN)
        while self.state != DEAD_DISPATCHER and not self._has_hung_up:
            # The socket is asked first: of TLS, poll() does not announce data that has been received already.
            data = self._receive()
            if data == b"":
                return
            self._take_all(data or b"")
            self._send_out()
            self._watch(time.monotonic())
            if data is None:
                poll.register(self.socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
                if self._event_fd in dict(poll.poll(_POLL_MS)):
                    os.eventfd_read(self._event_fd)

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────

    def _receive(self) -> bytes | None:
        """Return received data; b"" at the end; None if nothing has arrived."""
        try:
            data: bytes = self.socket.recv(_RECEIVE_BYTES)
            return data
        except _NOT_NOW:
            return None

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
        if self._unsent and now_s - self._sent_s > SEND_TIMEOUT_S:
            raise TimeoutError(f"it has taken nothing for {SEND_TIMEOUT_S:.0f} s")
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

        A peer that does not read is disconnected when its queue is full. os-ken never closes a socket here.
        """
        if self.state == DEAD_DISPATCHER:
            return False
        try:
            self._outbox.put_nowait(bytes(buf))
        except queue.Full:
            log.warning(
                "closing the connection of %s: it does not read, and %d messages wait for it",
                self.peer,
                MAX_UNSENT_MESSAGES,
            )
            self.hang_up()
            return False
        self._wake()
        return True

    def _send_out(self) -> None:
        """Send as much of the queue as the peer takes now."""
        try:
            while self._unsent or not self._outbox.empty():
                if not self._unsent:
                    self._unsent, self._sent_s = memoryview(self._outbox.get_nowait()), time.monotonic()
                sent = self.socket.send(self._unsent)
                self._unsent, self._sent_s = self._unsent[sent:], time.monotonic()
        except _NOT_NOW:
            return

    def _wake(self) -> None:
        os.eventfd_write(self._event_fd, 1)

    # ── Ending ──────────────────────────────────────────────────────────────────────────────────

    def hang_up(self) -> None:
        """End the connection without blocking."""
        self._has_hung_up = True
        self._wake()

    def close(self) -> None:
        """Announce the end, once, and make the thread finish.

        The application's own thread must call `hang_up` instead: announcing the end could wait for
        room in that thread's queue.
        """
        with self._closing:
            if self.state == DEAD_DISPATCHER:
                return
            self.set_state(DEAD_DISPATCHER)
        self._wake()


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


def server_context(key: Path, certificate: Path, authority: Path) -> ssl.SSLContext:
    """Return the TLS settings of the controller. FieldError names the file that cannot be used.

    `authority` has signed the certificates of the switches. All three files are PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    for option, path in (("--tls-key", key), ("--tls-cert", certificate), ("--tls-ca", authority)):
        if not path.is_file():
            raise FieldError(option, f"there is no file {path}")
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        problem = f"{certificate} and {key} are no PEM certificate with its key: {error}"
        raise FieldError("--tls-cert", problem) from error
    try:
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        problem = f"{authority} has no PEM certificate: {error}"
        raise FieldError("--tls-ca", problem) from error
    return context


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
        with self._lock:
            crowded = len(self._connections) >= MAX_CONNECTIONS
        if crowded:
            log.warning("refused a connection from %s: the limit is %d", address, MAX_CONNECTIONS)
            accepted.close()
            return
        name = f"switch-{address}"
        threading.Thread(target=self._run, args=(accepted, address), name=name, daemon=True).start()

    def _run(self, accepted: socket.socket, address: object) -> None:
        try:
            if accepted.family != socket.AF_UNIX:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(accepted, address, self._context)
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
