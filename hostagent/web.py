# SPDX-License-Identifier: Apache-2.0
"""JSON to the web process, through its Unix socket or over TCP, on one connection that is kept open."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from policy.errors import FieldError

TIMEOUT_S = 5.0


class WebAway(Exception):
    """The web process does not answer, or cannot serve now: try again later."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def document(self) -> Any:
        """Raises WebAway when the answer is not JSON: then whoever answers is not our web process."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise WebAway(f"the answer is not JSON: {error}") from None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


class Web:
    """One client, one thread."""

    def __init__(self, target: str) -> None:
        """`target` is "unix:/path/of/web.sock" or "http://host:port". Raises FieldError."""
        self.peer: tuple[str, int] | None = None
        """Address and port of the web process once it has answered over TCP."""
        if target.startswith("unix:/"):
            self._connection: http.client.HTTPConnection = _UnixConnection(target.removeprefix("unix:"))
            return
        url = urlsplit(target)
        if url.scheme != "http" or not url.hostname:
            raise FieldError("--web", f"must be unix:/PATH or http://HOST:PORT, not {target!r}")
        self._connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=TIMEOUT_S)

    def post(self, path: str, body: bytes) -> Answer:
        """Raises WebAway. What is posted must be idempotent: a connection that has gone stale is opened anew."""
        used = self._connection.sock is not None
        try:
            return self._post(path, body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if not used or isinstance(error, TimeoutError):
                raise WebAway(str(error) or type(error).__name__) from None
        try:
            return self._post(path, body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise WebAway(str(error) or type(error).__name__) from None

    def close(self) -> None:
        self._connection.close()

    def _post(self, path: str, body: bytes) -> Answer:
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        if self._connection.sock is not None and self._connection.sock.family != socket.AF_UNIX:
            self.peer = self._connection.sock.getpeername()[:2]
        response = self._connection.getresponse()
        answer = Answer(response.status, response.read())
        if answer.status >= 500:
            raise WebAway(f"it answers {answer.status}")
        return answer
