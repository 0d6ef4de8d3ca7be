# SPDX-License-Identifier: Apache-2.0
"""TLS of the agents' address. gunicorn serves it beside the plain addresses, in the same workers."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from gunicorn.workers.gthread import TConn

from runtime.certificates import pem
from webui.authority import Authority

log = logging.getLogger(__name__)

AGENTS = "sluice-agents"
"""Key of the application's extension that holds the AgentsAddress, or None."""
HANDSHAKE_S = 5.0
CONTEXT_LIFE_S = 3600.0
"""A context is made anew after this time, so the web process renews its own certificate in time."""


class ServerTls:
    """The context for connections of agents. It follows changes of the authority."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._lock = threading.Lock()
        self._made_of: tuple[int, ...] | None = None
        self._until = 0.0
        self._context: ssl.SSLContext

    def context(self) -> ssl.SSLContext:
        with self._lock:
            state = self._authority.state()
            if state != self._made_of or time.monotonic() > self._until:
                self._context = _context(self._authority)
                self._made_of, self._until = state, time.monotonic() + CONTEXT_LIFE_S
            return self._context


def _context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(authority.web_chain())
    context.load_verify_locations(cadata=pem(*authority.trusted()).decode())
    # A caller without a certificate may only enrol (webui/identity.py). One with a certificate of
    # another authority ends in the handshake.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # every connection verifies the certificate
    return context


class AgentConnection(TConn):  # type: ignore[misc]
    """A connection at the agents' address."""

    def __init__(
        self, *arguments: Any, tls: ServerTls, refused: Callable[[str, str], None], **options: Any
    ) -> None:
        """`refused` gets the address of a caller and the reason why its handshake failed."""
        super().__init__(*arguments, **options)
        self.sock: socket.socket
        self._tls = tls
        self._refused = refused

    def init(self) -> None:
        if not self.initialized:
            self.sock.settimeout(HANDSHAKE_S)
            self.sock = self._handshake()
        super().init()

    def _handshake(self) -> ssl.SSLSocket:
        plain = self.sock.dup()
        try:
            return self._tls.context().wrap_socket(self.sock, server_side=True)
        except ssl.SSLError as error:
            self._refused(str(self.client[0]), _reason(error))
            _let_it_read_the_alert(plain)
            raise ConnectionResetError(104, "the TLS handshake failed") from None
        finally:
            plain.close()


@dataclass(frozen=True)
class AgentsAddress:
    """The agents' address of a worker process."""

    address: Any
    """As gunicorn parses HOST:PORT."""
    tls: ServerTls
    refused: Callable[[str, str], None]

    def connection(self, *arguments: Any) -> AgentConnection:
        """Return a new connection; the arguments are TConn's."""
        return AgentConnection(*arguments, tls=self.tls, refused=self.refused)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return f"the TLS handshake failed: {error.reason or error}"


def _let_it_read_the_alert(connection: socket.socket) -> None:
    """Read what the caller still sends. A socket closed with unread data would discard the alert on its way."""
    with suppress(OSError):
        connection.settimeout(1.0)
        connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + 1.0
        while connection.recv(4096) and time.monotonic() < deadline:
            pass


def peer_certificate(environ: dict[str, Any]) -> x509.Certificate | None:
    """Return the verified certificate of the caller, None without one."""
    connection = environ.get("gunicorn.socket")
    found = connection.getpeercert(binary_form=True) if isinstance(connection, ssl.SSLSocket) else None
    return x509.load_der_x509_certificate(found) if found else None


def is_agents_address(environ: dict[str, Any]) -> bool:
    """Return whether the request came in at the agents' address."""
    return isinstance(environ.get("gunicorn.socket"), ssl.SSLSocket)
