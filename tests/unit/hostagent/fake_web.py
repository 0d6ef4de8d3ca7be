# SPDX-License-Identifier: Apache-2.0
"""A fake web process: HTTP over a real Unix socket. It can stop, lose answers and refuse records."""

import json
import random
import socketserver
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import NO_SETTINGS
from sluice.policy.wire.records import FlowRecord


class FakeWeb:
    """Keeps the records and heartbeats that it receives.

    `stop` and `start` act like the kill and restart of a process, any number of times.
    """

    def __init__(self, path: Path, seed: int = 1) -> None:
        self.path = path
        self.records: dict[str, FlowRecord] = {}
        self.deliveries: Counter[str] = Counter()
        self.heartbeats: list[dict[str, Any]] = []
        self.settings: Any = write(NO_SETTINGS)
        self.lose_answers = 0.0
        """Share of the requests that are executed but not answered."""
        self.refuse_requests = 0.0
        """Share of the requests that are dropped without being executed."""
        self.flow_status: int | None = None
        """Answer every delivery with this status instead of storing the records."""
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._server: _Server | None = None

    @property
    def target(self) -> str:
        return f"unix:{self.path}"

    def start(self) -> Self:
        self.path.unlink(missing_ok=True)
        self._server = _Server(str(self.path), _Handler)
        self._server.web = self
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.end_connections()
            self._server = None
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def handle(self, path: str, body: bytes) -> tuple[int, Any] | None:
        """Return status and document of the answer; None closes the connection."""
        with self._lock:
            if self._random.random() < self.refuse_requests:
                return None
            answer = self._agents(body) if path.startswith("/api/v1/agents/") else self._flows(body)
            return None if self._random.random() < self.lose_answers else answer

    def _agents(self, body: bytes) -> tuple[int, Any]:
        self.heartbeats.append(json.loads(body))
        return 200, self.settings

    def _flows(self, body: bytes) -> tuple[int, Any]:
        if self.flow_status:
            return self.flow_status, {"error": "the test has set this status"}
        try:
            records = [FlowRecord.from_document(document) for document in json.loads(body)]
        except (ValueError, FieldError) as error:
            return 422, {"error": str(error)}
        for record in records:
            self.deliveries[record.id] += 1
            self.records.setdefault(record.id, record)
        return 200, {"accepted": len(records)}


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    web: FakeWeb

    def __init__(self, *arguments: Any) -> None:
        self.connections: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def end_connections(self) -> None:
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(2)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        return

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.web.handle(self.path, body)
        if answer is None:
            self.close_connection = True
            return
        data = json.dumps(answer[1]).encode()
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
