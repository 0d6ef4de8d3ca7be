# SPDX-License-Identifier: Apache-2.0
"""The live stream of tabs that are hidden and shown, slow and failing answers, and what stays when a snapshot comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.runtime.wait import wait_until
from sluice.store.desired import mark_applied, put_policy
from sluice.store.observed import add_event
from tests.web.conftest import PATIENCE_S, Server
from tests.web.dashboard import LIVE, figure, open_dashboard, until
from tests.web.synthetic import Network

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

pytestmark = pytest.mark.web

# Playwright shows all its tabs as visible ones, so the page is told that it is hidden.
SHOW = """(isShown) => {
    Object.defineProperty(document, 'hidden', {configurable: true, value: !isShown});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
NEXT_SNAPSHOT = "(at) => sluice.model.snapshot.at > at + 1"


def show(page: Page, *, shown: bool) -> None:
    page.evaluate(SHOW, shown)


def next_snapshots(page: Page) -> None:
    """Wait for two snapshots."""
    until(page, NEXT_SNAPSHOT, page.evaluate("sluice.model.snapshot.at"))


def pumped(page: Page, condition: Callable[[], bool], what: str) -> None:
    """Wait for what the page's requests bring about. They are handled only while Playwright is called."""
    wait_until(lambda: page.evaluate("true") and condition(), what, timeout_s=PATIENCE_S)


def test_a_seventh_tab_works_because_hidden_ones_leave_their_connection(
    page: Page, shared_server: Server
) -> None:
    """A browser opens six connections to a server at most."""
    tabs = [page, *(page.context.new_page() for _ in range(6))]
    for tab in tabs:
        open_dashboard(tab, shared_server)
        show(tab, shown=tab is tabs[-1])
    assert tabs[-1].evaluate("fetch('/api/v1/health').then((answer) => answer.status)") == 200
    next_snapshots(tabs[-1])


def test_a_tab_that_is_shown_again_has_what_happened_meanwhile(
    page: Page, server: Server, engine: Engine
) -> None:
    open_dashboard(page, server)
    add_event(engine, "leading", number=1)
    until(page, "sluice.model.events.length === 1")
    show(page, shown=False)
    until(page, "document.body.dataset.live === 'connecting'")
    missed = 70
    for number in range(missed):
        add_event(engine, "leading", number=number + 2)
    resumed: list[str] = []
    page.on("request", lambda request: resumed.append(request.url))
    show(page, shown=True)
    page.wait_for_selector(LIVE)
    until(page, f"sluice.model.events.length === {missed + 1}")
    assert any("events?last_event_id=" in url for url in resumed)
    until(page, "document.querySelectorAll('#events li').length === 71")
    pumped(page, lambda: any("/fct" in url for url in resumed), "the history is fetched")


def test_a_tab_that_is_opened_in_the_background_fetches_the_history_when_it_is_shown(
    page: Page, shared_server: Server
) -> None:
    page.add_init_script("Object.defineProperty(document, 'hidden', {configurable: true, value: true})")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(shared_server.url)
    pumped(page, lambda: any("/fct" in url for url in asked), "the page loads its history")
    assert not any("/api/v1/events" in url for url in asked), asked
    asked.clear()
    show(page, shown=True)
    page.wait_for_selector(LIVE)
    pumped(page, lambda: any("/fct" in url for url in asked), "the page fetches the history again")


def test_a_slow_server_is_not_asked_again_while_an_answer_is_outstanding(
    page: Page, server: Server, engine: Engine
) -> None:
    open_dashboard(page, server)
    until(page, "sluice.model.policies.length === 0")
    asked: list[Route] = []
    page.route("**/api/v1/policy?*", lambda route: asked.append(route))
    mark_applied(engine, put_policy(engine, Policy.from_document({"scheme": "pias"}), "test"))
    pumped(page, lambda: bool(asked), "the page asks for the policy")
    for _ in range(3):
        next_snapshots(page)
    assert len(asked) == 1
    asked[0].continue_()
    until(page, "sluice.model.policies.length === 1")


def test_what_could_not_be_loaded_is_named_until_it_is(page: Page, shared_server: Server) -> None:
    page.route(
        "**/api/v1/scoreboard*",
        lambda route: route.fulfill(status=500, json={"error": {"problem": "broken"}}),
    )
    open_dashboard(page, shared_server)
    until(page, "document.getElementById('trouble').textContent === 'Not loaded: scoreboard'")
    for _ in range(2):
        next_snapshots(page)
        assert page.get_attribute("#trouble", "title") == "scoreboard: broken"
    page.unroute("**/api/v1/scoreboard*")
    until(page, "document.getElementById('trouble').hidden")


def test_what_has_not_changed_stays_when_a_snapshot_comes(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    """The same elements stay: those that are hovered or selected, and those that hold the focus."""
    network.heartbeats(1)
    add_event(engine, "leading", number=1)
    open_dashboard(page, server)
    until(
        page, "document.querySelectorAll('#components .pill').length >= 23 && sluice.model.events.length > 0"
    )
    page.evaluate("""() => {
        window.kept = [...document.querySelectorAll('#components .pill, #events li')];
        getSelection().selectAllChildren(document.querySelector('#events .detail'));
    }""")
    selected = page.evaluate("String(getSelection())")
    assert selected
    add_event(engine, "leading", number=2)
    until(page, "document.querySelectorAll('#events li').length > 1")
    network.heartbeats(2)
    next_snapshots(page)
    assert page.evaluate("kept.every((element) => element.isConnected)")
    assert page.evaluate("String(getSelection())") == selected
    assert figure(page, "policy") == "None yet"


def test_the_page_names_all_its_modules_so_that_they_come_at_once(page: Page, shared_server: Server) -> None:
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    open_dashboard(page, shared_server)
    loaded = {request.url for request in asked if request.url.endswith(".js")}
    named = page.evaluate(
        "[...document.querySelectorAll('link[rel=modulepreload], script[src]')].map((e) => e.href || e.src)"
    )
    assert loaded == set(named)
    assert len(loaded) == len([request for request in asked if request.url.endswith(".js")])
