# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks: a real HTTP server that the test tells how to answer."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Keeps what it gets. `statuses` are the next answers: "hang" answers nothing, "drip" a byte now and then."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.statuses: list[int | str] = []
        self.always: int | str = 204
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks/secret-path?key=secret-key"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def answer(self) -> int | str:
        return self.statuses.pop(0) if self.statuses else self.always

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        receiver = self.receiver
        receiver.paths.append(self.path)
        receiver.headers.append(dict(self.headers))
        receiver.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status = receiver.answer()
        if status == "hang":
            receiver.closing.wait(60)
            return
        if status == "drip":
            while not receiver.closing.wait(0.05):
                self.wfile.write(b"H")
            return
        self.send_response(int(status))
        if 300 <= int(status) < 400:
            self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
