# SPDX-License-Identifier: Apache-2.0
"""The page of runs in a real browser, with real simulations: start, progress, cancel, compare, what is refused.

All tests share one page and one web process, on a machine that has no testbed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runs.obstacle import obstacle
from sluice.runs.progress import read_state
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.simulator.build import build
from tests.web.conftest import PATIENCE_S, Page, eventually
from tests.web.dashboard import until
from tests.web.runs_server import OWN, RunsServer, choose_own, open_runs, started

pytestmark = pytest.mark.web

LONG = """
[sweep.scheme.long]
name = "pias"
[sweep.scheme.long.workload]
flows = 3000000
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunsServer]:
    """A web process that finds what the check of namespaces needs, and no other program, so no testbed can run."""
    build()
    folder = tmp_path_factory.mktemp("runs")
    (folder / "bin").mkdir()
    for program in ("unshare", "true"):
        (folder / "bin" / program).symlink_to(shutil.which(program) or f"/usr/bin/{program}")
    server = RunsServer(folder, None, "--runs", str(folder / "runs"))
    server.prefix = ["/usr/bin/env", f"PATH={folder / 'bin'}"]
    server.start()
    eventually(server.list_answers, "the run manager answers")
    yield server
    server.stop()


@pytest.fixture
def page(shared_page: Page, server: RunsServer) -> Page:
    """Load the page of runs. The tab keeps the token."""
    if shared_page.url.startswith(server.url):
        shared_page.goto("about:blank")
    open_runs(shared_page, server)
    return shared_page


def start(page: Page, scenario: str, flows: str) -> None:
    page.select_option("#scenario", scenario)
    page.fill("#flows", flows)
    page.click("#start-button")


def test_a_run_starts_shows_its_progress_survives_a_reload_and_is_cancelled(
    page: Page, server: RunsServer
) -> None:
    start(page, "paper-mix", "2000000")
    name = started(page)
    bar = page.locator(f'[data-run="{name}"] progress')
    until(page, "(name) => document.querySelector(`[data-run='${name}'] table tr:nth-child(2)`)", name)
    page.reload()
    until(page, "(name) => document.querySelector(`[data-run='${name}'] progress`)?.value > 0", name)
    assert "flows" in page.inner_text(f'[data-run="{name}"] p')
    assert bar.get_attribute("aria-label") == f"Progress of {name}"
    state = read_state(server.runs / name)
    assert state is not None
    page.click(f'button[aria-label="Cancel {name}"]')
    page.wait_for_selector(f'#past tr[data-run="{name}"][data-state="interrupted"]')
    wait_until(lambda: not Path(f"/proc/{state.pid}").exists(), "the run's process has ended")


def test_two_runs_are_compared_in_one_report(page: Page) -> None:
    names = []
    for scheme in ("dctcp", "pias"):
        page.fill("#settings", f"scheme.name={scheme}" if scheme == "pias" else "seed=7")
        choose_own(page)
        page.fill("#flows", "60")
        page.click("#start-button")
        names.append(started(page))
        page.wait_for_selector(f'#past tr[data-run="{names[-1]}"][data-state="done"]')
    assert page.inner_text(f'#past tr[data-run="{names[0]}"] td:nth-child(7)') == "60"
    for name in names:
        page.check(f'input[aria-label="Choose {name}"]')
    assert page.inner_text("#compare") == "Compare 2"
    with page.context.expect_page() as opened:
        page.click("#compare")
    report = opened.value
    report.wait_for_selector("figure svg")
    text = report.inner_text("body")
    assert "dctcp" in text
    assert "pias" in text


def test_a_sweep_starts_reports_what_it_has_and_keeps_it_when_cancelled(
    page: Page, server: RunsServer
) -> None:
    """Its first point ends at once and its second would take minutes."""
    assert not page.is_visible("#axes")
    page.check("#as-sweep")
    choose_own(page, OWN + LONG)
    page.fill("#loads", "much")
    page.click("#start-button")
    until(page, "() => document.getElementById('start-message').textContent.startsWith('loads: ')")
    assert page.locator(".field.wrong #loads").count() == 1
    page.fill("#loads", "0.2")
    page.fill("#schemes", "dctcp, long")
    page.click("#predict")
    until(
        page, "() => document.getElementById('start-message').textContent.includes('2 points (dctcp, long)')"
    )
    page.click("#start-button")
    name = started(page)
    until(
        page,
        "(name) => document.querySelector(`[data-run='${name}'] p`)?.textContent.includes('1 of 2 points')",
        name,
    )
    with page.context.expect_page() as opened:
        page.click(f'a[aria-label="Report so far of {name}"]')
    opened.value.wait_for_selector("figure svg")
    assert "seed-01" in opened.value.inner_text("body")
    state = read_state(server.runs / name)
    assert state is not None
    page.click(f'button[aria-label="Cancel {name}"]')
    page.wait_for_selector(f'#past tr[data-run="{name}"][data-state="partial"]')
    assert page.inner_text(f'#past tr[data-run="{name}"] td:nth-child(3)') == "1 of 2 points"
    assert not Path(f"/proc/{state.pid}").exists()


def test_what_is_wrong_is_said_at_its_field_and_nothing_starts(page: Page, server: RunsServer) -> None:
    before = server.states()
    start(page, "paper-mix", "many")
    until(page, "() => document.getElementById('start-message').dataset.kind === 'error'")
    assert page.inner_text("#start-message").startswith("flows: ")
    page.fill("#flows", "")
    page.select_option("#scenario", "demo-simulator")
    page.fill("#settings", "workload.sizes=/etc/passwd")
    page.click("#predict")
    until(page, "() => document.getElementById('start-message').textContent.startsWith('workload.sizes: ')")
    assert page.locator(".field.wrong textarea").count() == 1
    page.fill("#settings", "")
    page.click("#predict")
    until(page, "() => document.getElementById('start-message').textContent.startsWith('Valid.')")
    assert server.states() == before


def test_a_run_of_hours_asks_and_a_no_starts_nothing(page: Page, server: RunsServer) -> None:
    before = server.states()
    start(page, "pias-144", "100000000")
    page.wait_for_selector("dialog[open]")
    assert "takes about" in page.inner_text("#confirm-text")
    page.keyboard.press("Enter")  # the focus is on the safe answer
    until(page, "() => document.getElementById('start-message').textContent === 'Nothing has started.'")
    assert server.states() == before


def test_where_no_testbed_can_run_the_page_says_why_and_starts_nothing(
    page: Page, server: RunsServer
) -> None:
    """Without root, that is the reason."""
    before = server.states()
    page.check("input[name=on][value=testbed]")
    choose_own(page)
    why = page.inner_text("label:has(input[value=testbed]) small")
    assert why == (obstacle() or "Open vSwitch is not installed")
    page.click("#predict")
    until(page, "() => document.getElementById('start-message').textContent.startsWith('Valid.')")
    assert page.inner_text("#start-message").endswith(f" It cannot start now: {why}.")
    page.click("#start-button")
    until(page, "() => document.getElementById('start-message').dataset.kind === 'error'")
    assert page.inner_text("#start-message") == why
    assert server.states() == before


def test_the_end_of_the_web_process_ends_its_runs_in_order(server: RunsServer, page: Page) -> None:
    """It is the last test of the file, because it stops the server."""
    start(page, "paper-mix", "2000000")
    name = started(page)

    def flows_end() -> bool:
        state = read_state(server.runs / name)
        return state is not None and state.recorded > 0

    eventually(flows_end, "flows of the run end")
    state = read_state(server.runs / name)
    assert state is not None
    stop(server.process, grace_s=PATIENCE_S)
    assert not Path(f"/proc/{state.pid}").exists()
    assert (server.runs / name / "summary.json").exists()
    assert not (server.runs / name / "progress.json").exists()
