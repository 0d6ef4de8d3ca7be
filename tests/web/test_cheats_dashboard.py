# SPDX-License-Identifier: Apache-2.0
"""A host with wrong tags, from its first packet to the operator's page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from tests.net.policed import TOP, Network
from tests.web.conftest import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.net,
    pytest.mark.web,
    pytest.mark.skipif(os.geteuid() != 0, reason="a testbed needs root"),
    pytest.mark.skipif(shutil.which("ovs-vswitchd") is None, reason="Open vSwitch is not installed"),
]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path)
    yield network
    network.close()


@pytest.fixture
def server(network: Network) -> Iterator[Server]:
    folder = network.folder / "web"
    folder.mkdir()
    server = Server(folder, network.store_url)
    server.start()
    yield server
    server.stop()


def test_the_dashboard_names_it(network: Network, server: Server, page: Page) -> None:
    page.goto(server.url)
    page.wait_for_selector('body[data-live="live"]')
    banner = page.locator("#sanctions")
    assert not banner.is_visible()
    cheat = network.stream("h2", TOP)
    wait_until(banner.is_visible, "the banner")
    assert "h2" in banner.inner_text()
    stop(cheat)
    wait_until(lambda: not banner.is_visible(), "the banner has gone")
