# SPDX-License-Identifier: Apache-2.0
"""JSON over HTTP, through a Unix socket, over TCP or over TLS, on one connection that is kept open."""

import http.client
import json
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sluice.policy.errors import FieldError
from sluice.policy.wire.access import SERVER_NAME

TIMEOUT_S = 5.0
"""Default limit for each step of a request."""


Context = Callable[[], ssl.SSLContext]

_ALERTS = {
    "ALERT_UNKNOWN_CA": "because another authority issued it",
    "ALERT_DECRYPT_ERROR": "because another authority issued it",
    "ALERT_CERTIFICATE_EXPIRED": "because it has expired",
    "ALERT_BAD_CERTIFICATE": "because it cannot verify it",
}
"""Part of the name of a TLS alert → what the server means by it."""


class ServerAway(Exception):
    """The server does not answer or cannot serve now. The caller may try again later."""


@dataclass(frozen=True)
class Answer:
    """A server's answer."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The document. Raises ServerAway if it is not JSON, because then another program has answered."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServerAway(f"the answer is not JSON: {error}") from None

    @property
    def problem(self) -> str:
        """The problem that an error of the API names."""
        return self._error("problem") or self.body[:200].decode(errors="replace")

    @property
    def code(self) -> str:
        """The code of an error of the API; empty for any other answer."""
        return self._error("code")

    def _error(self, key: str) -> str:
        try:
            return str(self.json()["error"][key])
        except (ServerAway, KeyError, TypeError):
            return ""


class UnixConnection(http.client.HTTPConnection):
    """HTTP through a Unix socket."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect through a descriptor of the folder, because a socket's name has at most 107 bytes."""
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class TlsConnection(http.client.HTTPConnection):
    """HTTP over TLS, with a context that is made at each connection, because an agent renews its certificate."""

    def __init__(self, host: str, port: int, timeout_s: float, context: Context) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._context = context

    def connect(self) -> None:
        context = self._context()
        super().connect()
        self.sock = context.wrap_socket(self.sock, server_hostname=SERVER_NAME)


class HttpClient:
    """One client for one thread."""

    def __init__(
        self,
        target: str,
        timeout_s: float = TIMEOUT_S,
        *,
        option: str = "--web",
        tls: Context | None = None,
    ) -> None:
        """`target` is "unix:/path/of/web.sock", "http://host:port", or "https://host:port" with a context `tls`.

        Raises FieldError that names `option`.
        """
        self.peer: tuple[str, int] | None = None
        """Address and port of the server, once it has answered over TCP."""
        self._connection = _connection(target, timeout_s, option, tls)

    def get(self, path: str) -> Answer:
        """Raises ServerAway."""
        return self.request("GET", path)

    def post(self, path: str, body: bytes) -> Answer:
        """Send JSON. Raises ServerAway."""
        return self.request("POST", path, body)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request. It must be idempotent, because the client repeats it if the kept connection was stale.

        Raises ServerAway, also for a status of 500 and more.
        """
        while True:
            used = self._connection.sock is not None
            try:
                return self._request(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not used or isinstance(error, TimeoutError):
                    raise ServerAway(_reason(error)) from None

    def close(self) -> None:
        self._connection.close()

    def _request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        kind = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(method, path, body, {**kind, **headers})
        if self._connection.sock is not None and self._connection.sock.family != socket.AF_UNIX:
            self.peer = self._connection.sock.getpeername()[:2]
        response = self._connection.getresponse()
        answer = Answer(response.status, response.read())
        if answer.status >= 500:
            raise ServerAway(f"the server answers {answer.status}")
        return answer


def is_tls(target: str) -> bool:
    return target.startswith("https://")


def _connection(
    target: str, timeout_s: float, option: str, tls: Context | None
) -> http.client.HTTPConnection:
    if target.startswith("unix:/"):
        return UnixConnection(Path(target.removeprefix("unix:")), timeout_s)
    allowed = f"must be unix:/PATH, https://HOST:PORT or http://HOST:PORT, not {target!r}"
    try:
        url = urlsplit(target)
        host, port = url.hostname, url.port
    except ValueError:
        raise FieldError(option, allowed) from None
    if url.scheme not in ("http", "https") or not host:
        raise FieldError(option, allowed)
    if is_tls(target):
        if tls is None:
            raise FieldError(option, f"{target} needs a certificate, and this program has none")
        return TlsConnection(host, port or 443, timeout_s, tls)
    return http.client.HTTPConnection(host, port or 80, timeout=timeout_s)


def _reason(error: Exception) -> str:
    """Return why a request failed; for TLS, in words that name the certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not of the authority that this agent trusts ({error.verify_message}); if the "
            "web process has a new authority, enrol this agent again"
        )
    for alert, meaning in _ALERTS.items():
        if isinstance(error, ssl.SSLError) and alert in str(error.reason):
            return f"it refuses this agent's certificate, {meaning}: enrol the agent again"
    return str(error) or type(error).__name__
