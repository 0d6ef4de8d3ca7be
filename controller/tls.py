# SPDX-License-Identifier: Apache-2.0
"""OpenFlow over TLS with client certificates: only switches with a certificate of the controller's authority.

Two threads must not use one of Python's TLS objects at the same time. A connection has two, a
reader and a writer, which wait independently. So TLS works here between buffers in memory, under a
lock that no thread holds while it waits for the network.
"""

import socket
import ssl
import threading
import time
from pathlib import Path

from sluice.policy.errors import FieldError

_CHUNK_BYTES = 1 << 18
_MIN_WAIT_S = 0.01


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


class TlsSocket:
    """The server's end of a connected socket: one thread receives, any thread sends."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext) -> None:
        self._raw = raw
        self._from_peer, self._to_peer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_peer, self._to_peer, server_side=True)
        self._state = threading.Lock()
        """Protects the TLS object and its buffers."""
        self._sending = threading.Lock()
        """Keeps the order of records: bytes leave `_to_peer` and the socket in one sequence."""

    def handshake(self, timeout_s: float) -> None:
        """Authenticate the peer. Raises OSError, of which ssl.SSLError is one."""
        deadline = time.monotonic() + timeout_s
        before = self._raw.gettimeout()
        while not self._shake_hands():
            self._send_out()
            self._raw.settimeout(max(_MIN_WAIT_S, deadline - time.monotonic()))
            data = self._raw.recv(_CHUNK_BYTES)
            if not data or time.monotonic() > deadline:
                raise ConnectionError(f"no TLS handshake within {timeout_s:.0f} s")
            self._from_peer.write(data)
        self._raw.settimeout(before)
        self._send_out()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            self._send_out()  # the alert contains the reason for the peer
            raise
        return True

    def received_with_handshake(self) -> bytes:
        """Return data that arrived together with the handshake: poll() does not announce it."""
        with self._state:
            return self._decrypt()[0]

    def recv(self, size_bytes: int) -> bytes | None:
        """Return received data; b"" at the end; None if no whole record has arrived."""
        data = self._raw.recv(size_bytes)
        with self._state:
            if data:
                self._from_peer.write(data)
            else:
                self._from_peer.write_eof()
            whole, ended = self._decrypt()
        self._send_out()
        return whole or (b"" if ended or not data else None)

    def _decrypt(self) -> tuple[bytes, bool]:
        """Return all data that can be read now, and whether the peer has ended the connection."""
        parts = []
        try:
            while part := self._tls.read(_CHUNK_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts), False
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass
        return b"".join(parts), True

    def sendall(self, data: bytes) -> None:
        with self._state:
            self._tls.write(data)
        self._send_out()

    def _send_out(self) -> None:
        """Send everything in `_to_peer`, which may hold records of other threads."""
        with self._sending:
            with self._state:
                data = self._to_peer.read()
            if data:
                self._raw.sendall(data)

    # ── The socket's interface ──────────────────────────────────────────────────────────────────

    def fileno(self) -> int:
        return self._raw.fileno()

    def settimeout(self, timeout_s: float | None) -> None:
        self._raw.settimeout(timeout_s)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._raw.setsockopt(level, option, value)

    def shutdown(self, how: int) -> None:
        self._raw.shutdown(how)

    def close(self) -> None:
        self._raw.close()
