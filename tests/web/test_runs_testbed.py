# SPDX-License-Identifier: Apache-2.0
"""The page of runs where no testbed can run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.wait import wait_until
from sluice.runs.obstacle import obstacle
from tests.web.conftest import PATIENCE_S
from tests.web.dashboard import until
from tests.web.test_runs import OWN, RunsServer, open_runs

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web


def choose_testbed(page: Page, server: RunsServer) -> None:
    """Choose a scenario of our own on the testbed."""
    wait_until(server.list_answers, "the run manager answers", timeout_s=PATIENCE_S)
    open_runs(page, server)
    page.check("input[name=on][value=testbed]")
    page.select_option("#scenario", "")
    page.set_input_files("#own", {"name": "own.toml", "mimeType": "application/toml", "buffer": OWN.encode()})


def test_where_no_testbed_can_run_the_page_says_why_and_starts_nothing(page: Page, tmp_path: Path) -> None:
    """This web process finds what the check of namespaces needs, and no other program. Without root, that is said."""
    (tmp_path / "bin").mkdir()
    for program in ("unshare", "true"):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program) or f"/usr/bin/{program}")
    server = RunsServer(tmp_path, None, "--runs", str(tmp_path / "runs"))
    server.prefix = ["/usr/bin/env", f"PATH={tmp_path / 'bin'}"]
    server.start()
    try:
        choose_testbed(page, server)
        why = page.inner_text("label:has(input[value=testbed]) small")
        assert why == (obstacle() or "Open vSwitch is not installed")
        page.click("#predict")
        until(page, "() => document.getElementById('start-message').textContent.startsWith('Valid.')")
        assert page.inner_text("#start-message").endswith(f" It cannot start now: {why}.")
        page.click("#start-button")
        until(page, "() => document.getElementById('start-message').dataset.kind === 'error'")
        assert page.inner_text("#start-message") == why
        assert server.states() == {}
    finally:
        server.stop()
