# SPDX-License-Identifier: Apache-2.0
"""Accepts connections of switches, one reader thread each."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
from pathlib import Path

from sluice.controller.connection import Connection
from sluice.controller.tls import TlsSocket
from sluice.policy.errors import FieldError

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
_BACKLOG = 64
_RESOURCE_PAUSE_S = 0.2


def bind(listen: str) -> socket.socket:
    """Return a socket that listens on "ADDRESS:PORT", "[IPv6]:PORT" or "unix:PATH".

    Raises FieldError.
    """
    try:
        return _bind_unix(Path(listen[5:])) if listen.startswith("unix:") else _bind_tcp(listen)
    except (OSError, ValueError) as error:
        raise FieldError(
            "listen", f"cannot listen on {listen!r}: {error}. Give ADDRESS:PORT or unix:PATH"
        ) from error


def _bind_tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)


def _bind_unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(_BACKLOG)
    return listener


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
