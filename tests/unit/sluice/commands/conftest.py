# SPDX-License-Identifier: Apache-2.0
"""A web process for commands that use the REST API."""

import threading
from collections.abc import Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from sqlalchemy import Engine

from sluice.webui.app import create_app


class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    """Run a web process as a thread. Yields its address."""
    stopping = threading.Event()
    server = make_server("127.0.0.1", 0, create_app(engine, "token", stopping), handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))  # seconds between looks at the end
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    stopping.set()
    server.shutdown()
    thread.join()
    server.server_close()
