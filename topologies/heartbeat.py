# SPDX-License-Identifier: Apache-2.0
"""One heartbeat to the web process over its Unix socket: what we are in, what we are to set out."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 2.0


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Through a descriptor of the folder: a socket's name has room for 107 bytes only."""
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


def post_heartbeat(socket_path: Path, name: str, status: Mapping[str, Any]) -> dict[str, Any] | None:
    """The agent's settings as the web process wants them; None when it is away or refuses."""
    connection = _UnixConnection(socket_path)
    try:
        body = json.dumps(status)
        connection.request("POST", f"/api/v1/agents/{name}", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        answer: dict[str, Any] | None = json.loads(text) if response.status == 200 else None
        return answer
    except (OSError, http.client.HTTPException, ValueError):  # away, or dying while it answers
        return None
    finally:
        connection.close()
