# SPDX-License-Identifier: Apache-2.0
"""Requests over TCP and over a Unix socket."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.runtime.http_client import Answer, HttpClient, ServerAway


@pytest.mark.parametrize("target", ["", "unix:relative", "https://x", "ftp://x:1", "http://"])
def test_targets_that_are_none(target: str) -> None:
    with pytest.raises(FieldError, match="--web"):
        HttpClient(target)


def test_answer__is_not_json() -> None:
    with pytest.raises(ServerAway, match="not JSON"):
        Answer(200, b"<html>").json()


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
    """Run a web process at folder/web.sock. It binds the relative name, because the whole path may be too long."""
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


def post(folder: Path) -> Answer:
    with closing(HttpClient(f"unix:{folder}/web.sock", 2)) as client:
        return client.post("/api/v1/agents/port-agent", b'{"kind": "port"}')


def test_post__the_body_is_sent_and_the_answer_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web(tmp_path, monkeypatch) as handler:
        assert post(tmp_path).json() == {"policy_version": 7}
    assert handler.heard == [("/api/v1/agents/port-agent", {"kind": "port"})]


def test_post__a_path_longer_than_a_socket_name_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with web(folder, monkeypatch):
        assert post(folder).ok


@pytest.mark.parametrize("folder", [".", "missing"])
def test_post__no_server_listens(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ServerAway):
        post(tmp_path / folder)


def test_post__a_server_that_cannot_serve_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web(tmp_path, monkeypatch, status=503), pytest.raises(ServerAway, match="503"):
        post(tmp_path)
