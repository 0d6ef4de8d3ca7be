# SPDX-License-Identifier: Apache-2.0
"""The API's page in a real browser, under the Content-Security-Policy of the application."""

from __future__ import annotations

import time
from typing import Literal

import pytest
from playwright.sync_api import ConsoleMessage, Page

from sluice.store.access import create_token
from tests.web.conftest import Server
from tests.web.dashboard import open_dashboard
from tests.web.synthetic import Network

pytestmark = pytest.mark.web


def test_page__lists_the_endpoints_and_sends_requests(page: Page, shared_server: Server) -> None:
    refused = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            refused.append(message.text)

    page.on("console", note)
    page.goto(f"{shared_server.url}/openapi/")
    endpoint = page.locator("#operations-network-network_health_health_get")
    endpoint.wait_for()
    endpoint.locator("button").first.click()
    endpoint.get_by_role("button", name="Try it out").click()
    endpoint.get_by_role("button", name="Execute").click()
    page.get_by_text('"status"').first.wait_for()
    assert refused == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page__has_the_colours_that_the_reader_prefers(
    page: Page, shared_server: Server, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{shared_server.url}/openapi/")
    page.locator(".swagger-ui .info .title").wait_for()
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (colour == "rgba(0, 0, 0, 0)") == (scheme == "light")


def test_a_reader_sees_why_the_button_is_off(page: Page, server: Server, network: Network) -> None:
    token = create_token(network.engine, "wall", "read", time.time() + 600)
    open_dashboard(page, server, f"#token={token}")
    page.wait_for_selector("#apply:disabled")
    assert page.inner_text("#control-message") == (
        "Your token may only read. Changes need a token with the role change."
    )
