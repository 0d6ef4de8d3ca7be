# SPDX-License-Identifier: Apache-2.0
"""The page of runs and the testbed: real runs from the browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.commands.inside import running_testbeds
from sluice.runs.obstacle import obstacle
from sluice.runs.progress import read_state
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


def choose_testbed(page: Page, server: RunsServer) -> None:
    """Choose the small scenario on the testbed."""
    eventually(server.list_answers, "the run manager answers")
    open_runs(page, server)
    page.check("input[name=on][value=testbed]")
    choose_own(page, SMALL)


def shows(page: Page, name: str, text: str) -> None:
    """Wait until the row of a run that is under way shows a text."""
    until(
        page,
        "([name, text]) => document.querySelector(`[data-run='${name}'] p`)?.textContent.includes(text)",
        [name, text],
    )


def test_a_real_run_shows_its_progress_and_is_compared_with_its_simulation(
    page: Page, server: RunsServer
) -> None:
    choose_testbed(page, server)
    page.click("#start-button")
    real = started(page)
    page.click("#start-button")
    until(page, "() => document.getElementById('start-message').dataset.kind === 'error'")
    assert page.inner_text("#start-message") == f"the run {real} holds the testbed; wait or cancel it"
    shows(page, real, "of 200 flows")
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


def test_a_real_run_is_cancelled_and_leaves_nothing(page: Page, server: RunsServer) -> None:
    choose_testbed(page, server)
    page.fill("#flows", "2000")
    page.click("#start-button")
    name = started(page)
    shows(page, name, "of 2000 flows")
    state = read_state(server.runs / name)
    assert state is not None
    assert running_testbeds()
    page.click(f'button[aria-label="Cancel {name}"]')
    page.wait_for_selector(f'#past tr[data-run="{name}"][data-state="interrupted"]')
    assert not Path(f"/proc/{state.pid}").exists()
    assert not running_testbeds()
    assert (server.runs / name / "summary.json").exists()
