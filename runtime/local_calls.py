# SPDX-License-Identifier: Apache-2.0
"""Calls between processes of one user on one machine: one JSON document there, one back, over a Unix socket."""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MOST_REQUEST_BYTES = 1_000_000

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class CallFailed(Exception):
    """The other process does not answer."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = 10.0

    def handle(self) -> None:
        assert isinstance(self.server, Listener)
        line = self.rfile.readline(MOST_REQUEST_BYTES)
        if line:
            self.wfile.write(json.dumps(self.server.answer(json.loads(line))).encode())


class Listener(socketserver.ThreadingUnixStreamServer):
    """Answers each call in a thread of its own, from `start` to `stop`."""

    daemon_threads = True

    def __init__(self, path: Path, answer: Answer) -> None:
        super().__init__(str(path), _Handler)
        self.answer = answer

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="local-calls", daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


def call(path: Path, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return the answer to a request. Raises CallFailed if none comes in time."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answer:
                document: dict[str, Any] = json.loads(answer.read())
                return document
    except (OSError, ValueError) as error:
        raise CallFailed(str(error) or type(error).__name__) from None
