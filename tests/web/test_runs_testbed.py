# SPDX-License-Identifier: Apache-2.0
"""The page of runs and the testbed: a real run from the browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.commands.inside import running_testbeds
from sluice.runs.obstacle import obstacle
from tests.web.conftest import Page, eventually
from tests.web.dashboard import until
from tests.web.runs_server import RunsServer, choose_own, open_runs, started

pytestmark = [
    pytest.mark.web,
    pytest.mark.net,
    pytest.mark.timing,
    pytest.mark.skipif(obstacle() is not None, reason=f"the testbed cannot run: {obstacle()}"),
]
"""A run on the testbed does not start beside another one, so it needs the machine for itself."""


SMALL = """
name = "small"
seed = 1
[fabric]
topology = "single"
hosts = 4
host_rate = "25Mbit"
buffer = "200KB"
[scheme]
name = "pias"
queues = 2
thresholds = ["10KB"]
mark_at = "20pkt"
[workload]
pattern = "many-to-one"
to = "h1"
load = 0.06
flows = 200
mix = [{ bytes = "10KB", share = 1.0, from = ["h3"] }]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunsServer]:
    server = RunsServer(tmp_path, None, "--runs", str(tmp_path / "runs"))
    server.start()
    yield server
    server.stop()


def test_a_real_run_shows_its_progress_and_is_compared_with_its_simulation(
    page: Page, server: RunsServer
) -> None:
    eventually(server.list_answers, "the run manager answers")
    open_runs(page, server)
    page.check("input[name=on][value=testbed]")
    choose_own(page, SMALL)
    page.click("#start-button")
    real = started(page)
    page.click("#start-button")
    until(page, "() => document.getElementById('start-message').dataset.kind === 'error'")
    assert page.inner_text("#start-message") == f"the run {real} holds the testbed; wait or cancel it"
    shown = "(name) => document.querySelector(`[data-run='${name}'] p`)?.textContent.includes('of 200 flows')"
    until(page, shown, real)
    page.wait_for_selector(f'#past tr[data-run="{real}"][data-state="done"]')
    assert not running_testbeds()
    page.check("input[name=on][value=simulator]")
    page.click("#start-button")
    until(page, "() => document.getElementById('start-message').textContent.includes('-simulator-')")
    simulated = started(page)
    page.wait_for_selector(f'#past tr[data-run="{simulated}"][data-state="done"]')
    for name, on in ((real, "testbed"), (simulated, "simulator")):
        row = page.locator(f'#past tr[data-run="{name}"] td')
        assert (row.nth(4).inner_text(), row.nth(6).inner_text()) == (on, "200")
        page.check(f'input[aria-label="Choose {name}"]')
    with page.context.expect_page() as opened:
        page.click("#compare")
    opened.value.wait_for_selector("figure svg")
    assert "testbed" in opened.value.inner_text("body")
