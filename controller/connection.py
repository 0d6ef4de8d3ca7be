# SPDX-License-Identifier: Apache-2.0
"""OpenFlow connections: os-ken's codec and handshake behind a reader that trusts nothing and threads that end.

os-ken 4.2's own server has defects with native threads that matter here: a dead connection is never announced and
leaks two threads (`hub.kill` does nothing, `_send_loop` sits in `get()`), a malformed message is logged in full and
passed over, a length of 0 spins for ever, and `send` blocks its caller when a switch stops reading. So a connection
here has one reader and one writer thread of its own; the reader checks each message before os-ken parses it, watches
over silence, and `send` never blocks.

Threads: the reader alone parses and changes the connection's state (`close` may come from anywhere and happens once);
the writer alone writes to the socket; between them and the application there are only queues.
"""

from __future__ import annotations

import errno
import logging
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import event, ofp_event
from os_ken.controller.controller import Datapath
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER
from os_ken.controller.ofp_handler import OFPHandler
from os_ken.ofproto import ofproto_common, ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as ofp

from controller.openflow import frames as wire
from controller.openflow.frames import Frame, ProtocolViolation
from controller.tls import TlsSocket
from policy.errors import FieldError

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 5.0
ECHO_INTERVAL_S = 1.0
SILENCE_LIMIT_S = 4.0
"""A peer that has not sent one whole message for this long, echo requests notwithstanding, is gone."""
SEND_TIMEOUT_S = 5.0
MAX_UNSENT_MESSAGES = 256
MAX_CONNECTIONS = 512
_RECEIVE_BYTES = 1 << 18

_STATS_FOR_US = (wire.STATS_FLOW, wire.STATS_QUEUE, wire.STATS_GROUP_DESC)
_FOR_OS_KEN = (
    wire.HELLO,
    wire.ERROR,
    wire.ECHO_REQUEST,
    wire.ECHO_REPLY,
    wire.FEATURES_REPLY,
    wire.BARRIER_REPLY,
)
_UNASKED = (wire.PACKET_IN, wire.FLOW_REMOVED, wire.PORT_STATUS)
_PORT_DESC_BYTES = 64
_ROLE_STATUS = 1911
"""ONF's experimenter type of a message that OpenFlow 1.4 has as its own: the switch has made another one its master."""


class EventStatsReply(event.EventBase):  # type: ignore[misc]
    """A whole statistics reply of a kind that the application reads by itself."""

    def __init__(self, datapath: Any, xid: int, stats: int, body: bytes) -> None:
        super().__init__()
        self.datapath, self.xid, self.stats, self.body = datapath, xid, stats, body


class EventRole(event.EventBase):  # type: ignore[misc]
    """The switch has said what it takes this controller for; asked for it (with that xid), or by itself (None)."""

    def __init__(self, datapath: Any, xid: int | None, role: int) -> None:
        super().__init__()
        self.datapath, self.xid, self.role = datapath, xid, role


class Connection(Datapath):  # type: ignore[misc]
    """One switch's connection. `serve` runs it to its end in the thread that calls it."""

    xid: int

    def __init__(self, sock: socket.socket | TlsSocket, address: Any) -> None:
        super().__init__(sock, address)
        sock.settimeout(SEND_TIMEOUT_S)
        self._outbox: queue.Queue[tuple[bytes, bool] | None] = queue.Queue(MAX_UNSENT_MESSAGES)
        self._framer, self._replies = wire.Framer(), wire.Replies()
        self._began = self._heard = self._asked = time.monotonic()
        self._closing = threading.Lock()
        self._numbering = threading.Lock()

    def reserve_xids(self, count: int) -> int:
        """The first of so many transaction ids in a row."""
        with self._numbering:
            first: int = self.xid + 1 if self.xid + count <= ofp.MAX_XID else 1
            self.xid = first + count - 1
            return first

    def set_xid(self, msg: Any) -> Any:
        msg.set_xid(self.reserve_xids(1))
        return msg.xid

    @property
    def heard_at(self) -> float:
        """When the last whole message came, by the monotonic clock."""
        return self._heard

    def ask_for_life(self) -> None:
        """Have the peer say something; `heard_at` tells whether it has."""
        self.send_msg(self.ofproto_parser.OFPEchoRequest(self))

    @property
    def host(self) -> str:
        """The peer's address without its port."""
        return str(self.address[0]) if isinstance(self.address, tuple) else ""

    @property
    def place(self) -> str:
        """Where the peer is."""
        return ":".join(map(str, self.address[:2])) if isinstance(self.address, tuple) else "a local socket"

    @property
    def peer(self) -> str:
        who = f"switch {self.id:#x}" if self.id is not None else "peer"
        return f"{who} at {self.place}"

    def serve(self) -> None:
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
            # os-ken's parsers raise whatever a malformed message makes them stumble over: its sender alone suffers.
            log.exception("closing the connection of %s: its message could not be handled", self.peer)
        finally:
            self.close()
            if writer.ident is not None:
                writer.join()
            self.socket.close()
            self.is_active = False

    # ── Reading ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_loop(self) -> None:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if isinstance(self.socket, TlsSocket):
            self._take_all(self.socket.came_with_the_handshake())
        while self.state != DEAD_DISPATCHER:
            if poll.poll(ECHO_INTERVAL_S * 250):
                data = self.socket.recv(_RECEIVE_BYTES)
                if data == b"":
                    return
                self._take_all(data or b"")
            self._watch(time.monotonic())

    def _take_all(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._heard = time.monotonic()
            self._take(frame)

    def _watch(self, now: float) -> None:
        """Ask a silent peer for a sign of life; end one that gives none, or never says what it is."""
        if self.state == DEAD_DISPATCHER:
            return
        if self.state != MAIN_DISPATCHER and now - self._began > HANDSHAKE_TIMEOUT_S:
            raise ProtocolViolation(f"no OpenFlow handshake within {HANDSHAKE_TIMEOUT_S:.0f} s")
        if now - self._heard > SILENCE_LIMIT_S:
            raise ProtocolViolation(f"silent for {SILENCE_LIMIT_S:.0f} s")
        if now - max(self._heard, self._asked) > ECHO_INTERVAL_S:
            self._asked = now
            self.send_msg(self.ofproto_parser.OFPEchoRequest(self))

    def _take(self, frame: Frame) -> None:
        if frame.kind == wire.HELLO:
            self._to_os_ken(_bare_hello(frame))
            return
        if frame.version != wire.VERSION:
            raise ProtocolViolation(f"message of version {frame.version:#04x}, type {frame.kind}")
        if frame.kind in _FOR_OS_KEN:
            self._to_os_ken(frame)
        elif frame.kind == wire.MULTIPART_REPLY:
            self._take_stats(frame)
        elif frame.kind == wire.ROLE_REPLY:
            self._tell_role(frame.xid, wire.role_reply(frame).role)
        elif frame.kind == wire.EXPERIMENTER:
            self._take_experimenter(frame)
        elif frame.kind not in _UNASKED:
            raise ProtocolViolation(f"message of type {frame.kind}, which a switch does not send")

    def _take_stats(self, frame: Frame) -> None:
        part = wire.multipart(frame)
        if part.stats == wire.STATS_PORT_DESC and len(part.body) % _PORT_DESC_BYTES == 0:
            self._to_os_ken(frame)
        elif part.stats in _STATS_FOR_US:
            body = self._replies.add(frame.xid, part)
            if body is not None and self.state == MAIN_DISPATCHER:
                reply = EventStatsReply(self, frame.xid, part.stats, body)
                self.ofp_brick.send_event_to_observers(reply, self.state)
        else:
            raise ProtocolViolation(f"statistics of type {part.stats}, which nobody asked for")

    def _tell_role(self, xid: int | None, role: int) -> None:
        if self.state == MAIN_DISPATCHER:
            self.ofp_brick.send_event_to_observers(EventRole(self, xid, role), self.state)

    def _take_experimenter(self, frame: Frame) -> None:
        """Bundle replies have no properties; os-ken would loop over malformed ones."""
        owner, kind = int.from_bytes(frame.data[8:12], "big"), int.from_bytes(frame.data[12:16], "big")
        size = ofp.OFP_EXPERIMENTER_HEADER_SIZE + ofp.ONF_BUNDLE_CTRL_SIZE
        if owner != ofproto_common.ONF_EXPERIMENTER_ID:
            raise ProtocolViolation("an experimenter message of a kind that nobody asked for")
        if kind == _ROLE_STATUS and len(frame.data) >= size:
            self._tell_role(None, int.from_bytes(frame.data[16:20], "big"))
        elif len(frame.data) == size:
            self._to_os_ken(frame)
        else:
            raise ProtocolViolation("an experimenter message that is no bundle reply")

    def _to_os_ken(self, frame: Frame) -> None:
        """Have os-ken parse a message, and hand it to its handshake and to the application."""
        version, kind, xid, data = frame
        message = ofproto_parser.msg(self, version, kind, len(data), xid, bytearray(data))
        if message is None:
            raise ProtocolViolation(f"malformed message of type {kind}")
        occurrence = ofp_event.ofp_msg_to_ev(message)
        self.ofp_brick.send_event_to_observers(occurrence, self.state)
        for handler in list(self.ofp_brick.get_handlers(occurrence, self.state)):
            handler(occurrence)

    # ── Writing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, buf: bytes, close_socket: bool = False) -> bool:
        """Queue bytes; never blocks. A peer that lets too much pile up is disconnected. False when it is gone."""
        if self.state == DEAD_DISPATCHER:
            return False
        try:
            self._outbox.put_nowait((bytes(buf), close_socket))
        except queue.Full:
            log.warning("closing the connection of %s: it does not read", self.peer)
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

    # ── Ending ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def hang_up(self) -> None:
        """Make both threads' socket calls return; the reader then closes. Never blocks."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("hanging up on %s: %s", self.peer, error)

    def close(self) -> None:
        """Announce the end (once), and have both threads finish.

        Not for the application's own thread, which would wait for room in its own queue: it hangs up.
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


def _bare_hello(frame: Frame) -> Frame:
    """The hello without its elements: the version in the header decides, and nothing needs parsing."""
    header = frame.data[:2] + wire.HEADER_BYTES.to_bytes(2, "big") + frame.data[4:8]
    if frame.version < wire.VERSION:
        raise ProtocolViolation(f"hello of version {frame.version:#04x}; OpenFlow 1.3 (0x04) is needed")
    return Frame(wire.VERSION, frame.kind, frame.xid, bytes([wire.VERSION]) + header[1:])


class DaemonLoop(OSKenApp):  # type: ignore[misc]
    """An os-ken application whose loop never keeps the process alive, and ends it when a handler has a bug.

    os-ken logs an exception in a handler and goes on with half of its work done. A controller that starts afresh reads
    the switches and changes nothing that is right, so ending is the safer course.
    """

    failed: Callable[[], None] = staticmethod(lambda: None)

    def start(self) -> None:
        loop = threading.Thread(target=self._event_loop, name=self.name, daemon=True)
        self.threads.append(loop)
        loop.start()

    def _event_loop(self) -> None:
        try:
            while self.is_active or not self.events.empty():
                occurrence, state = self.events.get()
                self._events_sem.release()
                if occurrence != self._event_stop:
                    for handler in list(self.get_handlers(occurrence, state)):
                        handler(occurrence)
        except Exception:
            log.exception("%s: a handler failed; ending", self.name)
            self.failed()


class Handshake(DaemonLoop, OFPHandler):  # type: ignore[misc]
    """os-ken's handshake without os-ken's server."""

    LOGGER_NAME = "os_ken.handshake"

    _EVENTS = [EventStatsReply, EventRole]  # noqa: RUF012 (os-ken's interface)


# ── Listening ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _LocalSocket(socket.socket):
    """A Unix socket that takes TCP options, which os-ken sets on every connection, for granted."""

    def setsockopt(self, level: int, *rest: Any) -> None:
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *rest)


def bind(listen: str) -> socket.socket:
    """A listening socket on "ADDRESS:PORT", "[IPv6]:PORT" or "unix:PATH". FieldError when that is impossible."""
    try:
        return _bind_unix(Path(listen[5:])) if listen.startswith("unix:") else _bind_tcp(listen)
    except (OSError, ValueError) as error:
        raise FieldError("listen", f"cannot listen on {listen!r}: {error}") from error


def _bind_tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, int(port)), family=family, backlog=64)


def _bind_unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(64)
    return listener


class Listener:
    """Accepts switches until it is closed."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """`context`: switches have to speak TLS."""
        self._listener, self._context = listener, context
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._thread = threading.Thread(target=self._accept_loop, name="accept", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stop accepting, end every connection, and wait for that a while."""
        self._closed.set()
        # Closing a socket does not wake a thread that waits in accept(); shutting it down does.
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
                log.error("accepting a connection: %s", error)
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._closed.wait(0.2)
                continue
            self._admit(accepted, address)

    def _admit(self, accepted: socket.socket, address: Any) -> None:
        if accepted.family == socket.AF_UNIX:
            accepted = _LocalSocket(fileno=accepted.detach())
        with self._lock:
            crowded = len(self._connections) >= MAX_CONNECTIONS
        if crowded:
            log.warning("refused a connection from %s: there are %d", address, MAX_CONNECTIONS)
            accepted.close()
            return
        threading.Thread(
            target=self._run, args=(accepted, address), name=f"read-{address}", daemon=True
        ).start()

    def _run(self, accepted: socket.socket, address: Any) -> None:
        try:
            sock = TlsSocket(accepted, self._context) if self._context else accepted
            connection = Connection(sock, address)
        except OSError as error:
            log.info("a connection from %s ended at once: %s", address, error)
            accepted.close()
            return
        with self._lock:
            self._connections.add(connection)
        try:
            connection.serve()
        finally:
            with self._lock:
                self._connections.discard(connection)
