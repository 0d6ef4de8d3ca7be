# SPDX-License-Identifier: Apache-2.0
"""The view of one host, the list of flows and the open connections, in a real browser. All tests share one page."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sluice.policy.wire.agents import LinkCounters, LinkQueue, RunningFlow
from tests.kit.heartbeats import LIVING, document, watching
from tests.unit.webui.records import record
from tests.web.conftest import Page, Server, eventually
from tests.web.dashboard import LIVE, WATCHED_FLOW, attribute, figure, open_dashboard, row_ids, until
from tests.web.synthetic import Network

pytestmark = pytest.mark.web

LIVING_HEARTBEAT = document(watching(replace(LIVING, src="h3", dst="fd00::7")))


def beat(**changes: Any) -> dict[str, Any]:
    """Return a heartbeat of h1 with flows under way and a loaded link."""
    now = time.time()
    running = (
        RunningFlow("run/1", "h2", "shuffle", 50_000, 20_000, now - 1, now + 600, 3, "sluice_dctcp", 250.0),
        RunningFlow("run/2", "h3", "", 50_000, 0, now - 9, now - 8, 0, "sluice_dctcp", 350.0),
    )
    link = LinkCounters(12.5, 9_000_000, 700, 4, 3_000, 8_000_000, 90_000, (LinkQueue(5_000_000, 4, 3_000),))
    beat = replace(watching(replace(LIVING, src="h1", dst="h4")), running=running, link=link)
    return document(
        replace(beat, controls_refused=2, spool_depth=7, link_queues="prio", version="9.8", **changes)
    )


def deliver(server: Server) -> None:
    now = time.time()
    late = {"deadline_us": 1e3}
    flows = [
        record("done", started_at=now - 3, met=True, **late),
        record("slow", started_at=now - 2, met=False, fct_us=9e6, label="shuffle", **late),
        record("lost", started_at=now - 1, status="unfinished", fct_us=None, reason="connection refused"),
        record("elsewhere", src="h7", dst="h8", scheme="dctcp", size_class="large"),
    ]
    server.post("flows", flows)


def reports(server: Server, shown: Callable[[], bool]) -> None:
    """Let h1 report until its page shows it. An agent that is silent for 5 s has no flows under way."""

    def once() -> bool:
        server.post("agents/h1", beat())
        return shown()

    eventually(once, "what h1 reports", interval_s=0.5)


def fact(page: Page, group: str, name: str) -> str:
    """Return a fact of the host view; the name may be the beginning."""
    script = """([group, name]) => [...document.querySelectorAll(`[data-group="${group}"] dt`)]
        .filter((dt) => dt.textContent.startsWith(name)).map((dt) => dt.nextElementSibling.textContent)[0] ?? ''"""
    return str(page.evaluate(script, [group, name]))


@pytest.fixture(scope="module")
def page(shared_page: Page, shared_server: Server, shared_network: Network) -> Page:
    """Open the page of a network."""
    open_dashboard(shared_page, shared_server)
    until(shared_page, "document.querySelectorAll('#host option').length === 17")
    return shared_page


def test_other_programs_connections_show_while_they_live_and_when_they_have_ended(
    page: Page, shared_server: Server
) -> None:
    until(page, "document.querySelector('#watched').textContent.includes('No host agent watches')")
    shared_server.post("agents/h3", document(watching()))
    until(page, "document.querySelector('#watched').textContent.includes('No connection now')")
    shared_server.post("agents/h3", LIVING_HEARTBEAT)
    until(page, "document.querySelector('#watched tr[data-state=living]') !== null")
    assert page.locator("#watched tr td").all_inner_texts() == [
        "h3:40000",
        "[fd00::7]:443",
        "Open",
        "5 MB",
        "80 Mb/s",
        page.locator("#watched tr td").nth(5).inner_text(),
        "3",
        "250 µs",
        "cubic",
        "",
    ]
    shared_server.post("agents/h3", document(watching(lost=4)))
    shared_server.post("flows", [WATCHED_FLOW])
    until(page, "document.querySelector('#watched tr[data-state=ended]') !== null")
    assert page.locator("#watched tr").count() == 1
    text = page.inner_text("#watched tr")
    assert "10 MB" in text
    assert "80 Mb/s" in text
    assert "Missed" in text
    assert page.inner_text("#watched-summary") == "0 open, 1 ended, 4 missed"
    assert figure(page, "misses") == "–", "the figures are of scheduled flows"


def test_a_chosen_host_shows_its_agent_its_flows_and_its_link(page: Page, shared_server: Server) -> None:
    deliver(shared_server)
    shared_server.post("agents/h1", beat())
    page.select_option("#host", "h1")
    page.wait_for_selector('#host-view[data-host="h1"]')
    reports(shared_server, lambda: fact(page, "Deadlines", "Under way") == "1")
    assert fact(page, "Agent", "Version") == "9.8"
    assert fact(page, "Agent", "Switch port") == "s1:1"
    assert fact(page, "Mechanisms", "Control") == "sluice_dctcp"
    assert fact(page, "Mechanisms", "Refused controls") == "2 connections"
    assert fact(page, "Records", "Spool") == "7 records"
    assert [fact(page, "Deadlines", name) for name in ("Met", "Missed", "Under way", "Passed")] == [
        "1",
        "1 (50 %)",
        "1",
        "1",
    ]
    assert fact(page, "Own link", "Sending") == "8 Mb/s (40 %)"
    assert fact(page, "Own link", "Dropped") == "4 packets"
    assert fact(page, "Own link", "Queue 0") == "5 MB, 3 KB waiting, 4 dropped"
    assert fact(page, "Flows", "Round trip, active").startswith("250 µs")
    assert set(row_ids(page, "host-flows")) == {"run/1", "run/2", LIVING.id, "done", "slow", "lost"}
    shared_server.post("agents/h1", {**beat(), "spool_depth": 99})
    eventually(lambda: fact(page, "Records", "Spool") == "99 records", "the next heartbeat")
    inside = """() => ['host-view', 'flow-list'].every((id) => {
        const card = document.getElementById(id), box = card.getBoundingClientRect();
        return [...card.querySelectorAll('header, dl, form, .rows')].every((part) => {
            const own = part.getBoundingClientRect();
            return own.left >= box.left - 1 && own.right <= box.right + 1 && own.bottom <= box.bottom + 1;
        });
    })"""
    for width in (420, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        until(page, inside)
    page.select_option("#host", "")
    until(page, "location.search === ''")


def test_the_address_holds_the_host_the_filter_and_the_order(page: Page, shared_server: Server) -> None:
    page.locator('#topology .host[data-host="h1"]').dispatch_event("click")
    page.wait_for_selector('#host-view[data-host="h1"]')
    page.click("#host-list")
    until(page, "document.querySelector('#flow-filter [name=host]').value === 'h1'")
    page.select_option("#flow-filter [name=status]", "finished")
    eventually(lambda: row_ids(page, "flows") == ["slow", "done"], "the filter")
    page.click("#flows th[data-column=fct] button")
    page.click("#flows th[data-column=fct] button")
    assert attribute(page, "#flows th[data-column=fct]", "aria-sort") == "ascending"
    assert page.url.endswith("?host=h1&flow-host=h1&flow-status=finished&sort=fct")
    page.reload()
    page.wait_for_selector(LIVE)
    eventually(lambda: row_ids(page, "flows") == ["done", "slow"], "the order")
    assert page.input_value("#host") == "h1"
    page.go_back()
    eventually(lambda: row_ids(page, "flows") == ["slow", "done"], "the order before")
    page.go_back()
    page.go_back()
    reports(shared_server, lambda: "run/1" in row_ids(page, "flows"))
    page.select_option("#flow-filter [name=status]", "active")
    page.fill("#flow-filter [name=label]", "shuffle")
    page.press("#flow-filter [name=label]", "Enter")
    reports(shared_server, lambda: row_ids(page, "flows") == ["run/1"])
