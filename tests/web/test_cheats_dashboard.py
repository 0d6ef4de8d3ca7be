# SPDX-License-Identifier: Apache-2.0
"""A host whose tags are not true, from its first packet to the page of whoever operates the network."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from runtime.process import stop
from runtime.wait import wait_until
from tests.net.policed import NAMED_S, TOP, Network
from tests.web.conftest import Server

pytestmark = [
    pytest.mark.net,
    pytest.mark.web,
    pytest.mark.skipif(os.geteuid() != 0, reason="a testbed needs root"),
    pytest.mark.skipif(shutil.which("ovs-vswitchd") is None, reason="Open vSwitch is not installed"),
]


@pytest.fixture
def network(tmp_path):
    network = Network(tmp_path)
    yield network
    network.close()


@pytest.fixture
def server(network):
    folder = network.folder / "web"
    folder.mkdir()
    server = Server(folder, network.store_url)
    server.start()
    yield server
    server.stop()


def test_the_dashboard_names_it_within_two_seconds(network, server, page):
    """On a machine that stands still meanwhile it takes longer: one of three times counts."""
    page.goto(server.url)
    page.wait_for_selector('body[data-live="live"]')
    banner = page.locator("#sanctions")
    took_s = []
    while len(took_s) < 3 and min(took_s, default=NAMED_S) >= NAMED_S:
        assert not banner.is_visible()
        cheat, began = network.stream("h2", TOP)
        wait_until(banner.is_visible, "the banner", interval_s=0.02, timeout_s=20)
        took_s.append(time.time() - began)
        assert "h2" in banner.inner_text()
        stop(cheat)
        wait_until(lambda: not banner.is_visible(), "the banner has gone", timeout_s=60)
    assert min(took_s) < NAMED_S, took_s
