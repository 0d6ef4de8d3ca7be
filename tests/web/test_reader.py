# SPDX-License-Identifier: Apache-2.0
"""The dashboard with a token that may only read."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page

from sluice.store.access import create_token
from tests.web.conftest import Server
from tests.web.dashboard import open_dashboard
from tests.web.synthetic import Network

pytestmark = pytest.mark.web


def test_a_reader_sees_why_the_button_is_off(page: Page, server: Server, network: Network) -> None:
    token = create_token(network.engine, "wall", "read", time.time() + 600)
    open_dashboard(page, server, f"#token={token}")
    page.wait_for_selector("#apply:disabled")
    assert page.inner_text("#control-message") == (
        "Your token may only read. Changes need a token with the role change."
    )
