# SPDX-License-Identifier: Apache-2.0
"""A host with wrong tags, from its first packet to the operator's page."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.process import stop
from runtime.wait import wait_until
from tests.net.policed import NAMED_S, TOP, Network
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


def test_the_dashboard_names_it_within_two_seconds(network: Network, server: Server, page: Page) -> None:
    """The best of three times counts, because a busy machine delays some of them."""
    page.goto(server.url)
    page.wait_for_selector('body[data-live="live"]')
    banner = page.locator("#sanctions")
    took_s: list[float] = []
    while len(took_s) < 3 and min(took_s, default=NAMED_S) >= NAMED_S:
        assert not banner.is_visible()
        cheat, began = network.stream("h2", TOP)
        wait_until(banner.is_visible, "the banner", interval_s=0.02, timeout_s=20)
        took_s.append(time.time() - began)
        assert "h2" in banner.inner_text()
        stop(cheat)
        wait_until(lambda: not banner.is_visible(), "the banner has gone", timeout_s=60)
    assert min(took_s) < NAMED_S, took_s
