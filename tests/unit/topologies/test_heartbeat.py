# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from topologies.heartbeat import post_heartbeat


class Handler(BaseHTTPRequestHandler):
    status = 200
    answer = b'{"policy_version": 7}'
    heard: list[tuple[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append((self.path, json.loads(body)))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def web(folder: Path, monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> Iterator[type[Handler]]:
    """A web process at folder/web.sock; bound by its relative name, for the whole one may be too long."""
    handler = type("H", (Handler,), {"heard": [], **attributes})
    monkeypatch.chdir(folder)
    with socketserver.UnixStreamServer("web.sock", handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield handler
        finally:
            server.shutdown()
            thread.join()


def test_the_status_is_posted_and_the_answer_returned(tmp_path, monkeypatch):
    with web(tmp_path, monkeypatch) as handler:
        assert post_heartbeat(tmp_path / "web.sock", "port-agent", {"kind": "port"}) == {"policy_version": 7}
    assert handler.heard == [("/api/v1/agents/port-agent", {"kind": "port"})]


def test_a_path_longer_than_a_socket_name_may_be(tmp_path, monkeypatch):
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with web(folder, monkeypatch):
        assert post_heartbeat(folder / "web.sock", "port-agent", {"kind": "port"}) is not None


def test_away_is_none(tmp_path):
    assert post_heartbeat(tmp_path / "web.sock", "port-agent", {}) is None
    assert post_heartbeat(tmp_path / "missing" / "web.sock", "port-agent", {}) is None


@pytest.mark.parametrize("attributes", [{"status": 503}, {"answer": b"<html>"}])
def test_refused_or_garbled_is_none(tmp_path, monkeypatch, attributes):
    with web(tmp_path, monkeypatch, **attributes):
        assert post_heartbeat(tmp_path / "web.sock", "port-agent", {}) is None
