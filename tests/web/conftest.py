# SPDX-License-Identifier: Apache-2.0
"""A real server process and a real browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from sqlalchemy import Engine

from sluice.policy.network.graph import Topology
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from tests.web.synthetic import Network, fill, go_on

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Browser
    from playwright.sync_api import ConsoleMessage as ConsoleMessage
    from playwright.sync_api import Page as Page
    from playwright.sync_api import Request as Request
    from playwright.sync_api import Route as Route
else:  # the package may be missing
    Browser = ConsoleMessage = Page = Request = Route = Any

TOKEN = "the-token"
CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_S = 300.0
"""How long a condition may take on a busy machine."""
eventually = partial(wait_until, timeout_s=PATIENCE_S)
"""Waits as long as that."""


def free_address() -> str:
    """Return an address of the loopback that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


class Server:
    """`sluice web` on a port and a unix socket of its own."""

    def __init__(self, folder: Path, store_url: str | None = None, *more: str) -> None:
        self.folder = folder
        self.store_url = store_url or f"sqlite:///{folder}/store.db"
        self.more = more
        self.prefix: list[str] = []
        """A command that becomes the web process."""
        self.socket_path = folder / "web.sock"
        self.address = free_address()
        self.url, self.port = f"http://{self.address}", int(self.address.partition(":")[2])
        (folder / "token").write_text(TOKEN)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started last. Raises RuntimeError before the first."""
        if self._process is None:
            raise RuntimeError("the web process has not been started")
        return self._process

    def start(self) -> None:
        arguments = ["--store", self.store_url, "--listen", self.address]
        arguments += ["--unix", str(self.socket_path), "--token-file", str(self.folder / "token"), *self.more]
        self._process = spawn(
            [*self.prefix, sys.executable, "-m", "sluice", "web", *arguments],
            log_file=self.folder / "web.log",
        )
        eventually(self.answers, "the web process answers")

    def answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"the web process ended:\n{(self.folder / 'web.log').read_text()}")
        try:
            return requests.get(f"{self.url}/api/v1/health", timeout=30).ok
        except requests.RequestException:
            return False

    def kill(self) -> None:
        """Kill the server, without a chance to clean up."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        return stop(self.process, grace_s=20)

    def get(self, path: str, **query: str | float) -> Any:
        """Return the document of a GET request."""
        answer = requests.get(f"{self.url}/api/v1/{path}", params=query, timeout=300)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: object) -> Any:
        """Deliver a document as an agent does. Returns that of the answer."""
        answer = requests.post(f"{self.url}/api/v1/{path}", json=body, timeout=300)
        assert answer.ok, answer.text
        return answer.json()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a file that leave nothing behind in it."""
    server = Server(tmp_path_factory.mktemp("shared"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def engine(server: Server) -> Iterator[Engine]:
    engine = open_store(server.store_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def shared_engine(shared_server: Server) -> Iterator[Engine]:
    """The store of the shared server."""
    engine = open_store(shared_server.store_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def shared_network(shared_engine: Engine) -> Network:
    """Return a network of the shared server that writes only when a test calls it."""
    return Network(shared_engine)


@pytest.fixture(scope="module")
def busy_server(shared_server: Server) -> Iterator[Server]:
    """The shared server over a network with some history that writes new rows each second."""
    with live_network(shared_server):
        yield shared_server


@contextmanager
def live_network(server: Server, topology: Topology | None = None) -> Iterator[None]:
    """Run a network with some history that writes new rows to the server's store each second."""
    network, ended = Network(open_store(server.store_url), topology), threading.Event()
    fill(network, time.time(), 60)
    writer = threading.Thread(target=go_on, args=(network, ended), daemon=True)
    writer.start()
    yield
    ended.set()
    writer.join()
    network.engine.dispose()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium. Playwright keeps an event loop in this thread, so it ends with the file: others use asyncio."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing; on Debian: apt-get install chromium")
    playwright_api = pytest.importorskip(
        "playwright.sync_api", reason="the Python package playwright is missing"
    )
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open a page in a context of its own. An error on the page, or a request to another machine,
    fails the test."""
    with watched_page(browser) as page:
        yield page


@pytest.fixture(scope="module")
def shared_page(browser: Browser) -> Iterator[Page]:
    """One page for all tests of a file, because to load a page costs seconds. Errors fail the last test."""
    with watched_page(browser) as page:
        yield page


@contextmanager
def watched_page(browser: Browser) -> Iterator[Page]:
    """Open a page, and assert in the end that it had no error and asked no other machine."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_S * 1000)
    page = context.new_page()
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(("http://127.0.0.1:", "data:")) else foreign.append(request.url)
        ),
    )
    yield page
    context.close()
    assert errors == []
    assert foreign == []
