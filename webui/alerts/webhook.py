# SPDX-License-Identifier: Apache-2.0
"""One POST to the receiver of alerts. Its address comes from the configuration file alone, so no request can choose it.

The client follows no redirect, reads no body, and uses no proxy. Logs and errors name the receiver's host only, because
the path of such an address is often a secret.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sluice.policy.version import VERSION

STEP_S = 5.0
"""Limit for each step: connecting, and each wait for bytes."""
WHOLE_S = 10.0
"""Limit for the whole request, for a receiver that sends one byte now and then."""
_LATER = frozenset({408, 425, 429})
"""Statuses below 500 with which a receiver asks to try again."""


class NotDelivered(Exception):
    """The receiver has not accepted the message."""

    def __init__(self, problem: str, *, is_final: bool) -> None:
        super().__init__(problem)
        self.is_final = is_final
        """The same message would be refused again."""


@dataclass(frozen=True)
class Webhook:
    """The receiver."""

    url: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    step_s: float = STEP_S
    whole_s: float = WHOLE_S

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def post(self, document: Mapping[str, Any]) -> None:
        """Send a message. Raises NotDelivered unless the receiver accepts it with a status of 200 to 299."""
        connection = self._connection()
        timer = threading.Timer(self.whole_s, _cut, [connection])
        timer.start()
        try:
            status = self._status(connection, document)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise NotDelivered(f"{self.host} does not answer: {reason}", is_final=False) from None
        finally:
            timer.cancel()
            connection.close()
        if not 200 <= status < 300:
            is_final = status < 500 and status not in _LATER
            redirect = ", a redirect, which Sluice does not follow" if 300 <= status < 400 else ""
            raise NotDelivered(f"{self.host} answers {status}{redirect}", is_final=is_final)

    def _connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self.url)
        host = url.hostname or ""
        if url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, url.port, timeout=self.step_s, context=context)
        return http.client.HTTPConnection(host, url.port, timeout=self.step_s)

    def _status(self, connection: http.client.HTTPConnection, document: Mapping[str, Any]) -> int:
        url = urlsplit(self.url)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"Sluice/{VERSION}",
            "Idempotency-Key": str(document["id"]),
            **({"Authorization": f"Bearer {self.token}"} if self.token else {}),
        }
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", path, json.dumps(document).encode(), headers)
        return connection.getresponse().status


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a request that takes too long, in another thread than that of the request."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
