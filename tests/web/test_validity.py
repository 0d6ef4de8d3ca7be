# SPDX-License-Identifier: Apache-2.0
"""The page says whether its figures are valid, in a real browser."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from sqlalchemy import Engine

from sluice.policy.figures.validity import MachineStatus
from sluice.store.engine import open_store
from sluice.store.observed import put_agent
from tests.kit.heartbeats import port_heartbeat
from tests.web.conftest import Server
from tests.web.dashboard import open_dashboard, until
from tests.web.synthetic import Network

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web


@contextmanager
def reporting(engine: Engine, machine: MachineStatus) -> Iterator[None]:
    """Play a port agent that reports on its machine."""
    end = threading.Event()

    def report() -> None:
        while not end.wait(0.5):
            put_agent(engine, "ports", port_heartbeat(machine=machine))

    put_agent(engine, "ports", port_heartbeat(machine=machine))
    thread = threading.Thread(target=report)
    thread.start()
    yield
    end.set()
    thread.join()


def test_page__says_that_its_figures_are_not_valid_and_why(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    open_dashboard(page, server)
    until(page, "document.body.dataset.valid === 'null'")
    until(page, "document.querySelector('#components').textContent.includes('sluice port-agent')")
    with reporting(engine, MachineStatus(10.0, 0.99, {"s1:2": 0.3}, {"queues of s1-eth1": 7}, 0.3)):
        page.wait_for_selector("#validity-banner:not([hidden])")
        text = page.inner_text("#validity-banner")
        assert (
            "What the page shows is not valid. The switch forwarded 30.0% of the packets in the last 10 s"
            in text
        )
        assert "served port s1:2 late, by 30% of its sending time" in text
        assert "7 packets were lost outside the emulated queues" in text
        assert "Lower the rates or the load" in text
        assert page.inner_text("#validity-mark") == "Not valid"
        assert "not valid" in (page.text_content("#validity-news") or "")
    with reporting(engine, MachineStatus(10.0, 0.2)):
        until(page, "document.body.dataset.valid === 'true'")
        assert page.locator("#validity-banner").is_hidden()
        assert page.locator("#validity-mark").is_hidden()


def test_page__the_banner_fits_each_width_and_its_mark_leads_to_it(page: Page, shared_server: Server) -> None:
    engine = open_store(shared_server.store_url)
    Network(engine).heartbeats(1)
    lost = {f"queues of s1-eth{i}": 7 for i in range(1, 9)}
    with reporting(engine, MachineStatus(10.0, 0.99, {"s1:2": 0.3}, lost, 0.3)):
        open_dashboard(page, shared_server)
        page.wait_for_selector("#validity-banner:not([hidden])")
        for width, theme in itertools.product((1440, 420), ("light", "dark")):
            page.emulate_media(color_scheme=cast(Any, theme))
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            for selector in ("#validity-banner", "#validity-mark"):
                box = page.locator(selector).bounding_box()
                assert box is not None, selector
                assert 0 <= box["x"] <= box["x"] + box["width"] <= width, selector
        page.focus("#validity-mark")
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#validity-banner"
    engine.dispose()
