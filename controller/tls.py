# SPDX-License-Identifier: Apache-2.0
"""OpenFlow over TLS with client certificates: a switch without a certificate of our authority is refused.

A TLS object of Python's may not be used by two threads at once, and a connection has a reader and a writer that wait on
their own. So TLS works here between buffers in memory, under a lock that nobody holds while he waits for the network.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from policy.errors import FieldError

_CHUNK_BYTES = 1 << 18


def server_context(key: Path, certificate: Path, authority: Path) -> ssl.SSLContext:
    """Who we are, and whose certificates we take. FieldError names the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    for field, path in (("tls-key", key), ("tls-cert", certificate), ("tls-ca", authority)):
        if not path.is_file():
            raise FieldError(field, f"there is no file {path}")
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise FieldError("tls-cert", f"{certificate} and {key} are no PEM pair: {error}") from error
    try:
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        raise FieldError("tls-ca", f"{authority} holds no PEM certificate: {error}") from error
    return context


class TlsSocket:
    """The server's end of a connected socket behind TLS, for one thread that receives and any that send."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext) -> None:
        self._raw = raw
        self._from_peer, self._to_peer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_peer, self._to_peer, server_side=True)
        self._state = threading.Lock()
        """Of the TLS object and its buffers."""
        self._sending = threading.Lock()
        """What TLS has put into `_to_peer` first goes out first."""

    def handshake(self, timeout_s: float) -> None:
        """Raises OSError (ssl.SSLError is one) when the peer is not one of ours, or takes too long."""
        deadline = time.monotonic() + timeout_s
        before = self._raw.gettimeout()
        while not self._shake_hands():
            self._send_out()
            self._raw.settimeout(max(0.01, deadline - time.monotonic()))
            data = self._raw.recv(_CHUNK_BYTES)
            if not data or time.monotonic() > deadline:
                raise ConnectionError("no TLS handshake")
            self._from_peer.write(data)
        self._raw.settimeout(before)
        self._send_out()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            self._send_out()  # the alert says to the peer why
            raise
        return True

    def came_with_the_handshake(self) -> bytes:
        """What the peer has said in one breath with it: nothing will announce that again."""
        with self._state:
            return self._decrypt()[0]

    def recv(self, size: int) -> bytes | None:
        """What has come, b"" at the end; None: not a whole record yet."""
        data = self._raw.recv(size)
        with self._state:
            if data:
                self._from_peer.write(data)
            else:
                self._from_peer.write_eof()
            whole, ended = self._decrypt()
        self._send_out()
        return whole or (b"" if ended or not data else None)

    def _decrypt(self) -> tuple[bytes, bool]:
        """All that can be read now, and whether it is the last."""
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
        """Each sender sends what there is, its own or another's; nobody waits for the network with the state locked."""
        with self._sending:
            with self._state:
                data = self._to_peer.read()
            if data:
                self._raw.sendall(data)

    # ── As the socket ──────────────────────────────────────────────────────────────────────────────────────────────

    def fileno(self) -> int:
        return self._raw.fileno()

    def settimeout(self, timeout_s: float | None) -> None:
        self._raw.settimeout(timeout_s)

    def setsockopt(self, *option: Any) -> None:
        self._raw.setsockopt(*option)

    def shutdown(self, how: int) -> None:
        self._raw.shutdown(how)

    def close(self) -> None:
        self._raw.close()
