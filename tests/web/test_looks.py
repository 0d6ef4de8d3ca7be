# SPDX-License-Identifier: Apache-2.0
"""Every view of the dashboard in wide and narrow windows, in both themes, by mouse, keyboard and screen reader.

`known_runs.py` lists the views. All tests share one page. The last ones go to other pages, the API's among them.
"""

import time
from collections.abc import Iterator
from typing import Literal

import pytest

from sluice.store.engine import open_store
from sluice.store.observed import add_event, put_sanction
from tests.web.conftest import ConsoleMessage, Page, Route, Server, live_network
from tests.web.dashboard import WATCHED_FLOW, open_dashboard, until
from tests.web.known_runs import VIEWS, View, known_runs, open_page
from tests.web.looks import defects, findings
from tests.web.synthetic import demotion

pytestmark = pytest.mark.web

WINDOWS = {"wide": (1440, 900), "narrow": (420, 900)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
FEW_FLOWS = "?flow-host=h1&flow-scheme=tcp&flow-size-class=medium"
"""A list of 100 flows would cost axe-core seconds, and says no more than a short one."""
EXPECTED_MESSAGE = "401 (Unauthorized)"
"""Chromium notes each refused request, and the form's view sends a wrong token."""
IS_LIGHT = """(isLight) => isLight ===
    (getComputedStyle(document.documentElement).backgroundColor === 'rgba(0, 0, 0, 0)')"""
_FOCUSED = """() => {
    const focused = document.activeElement;
    const drawn = focused.matches('input[type=radio]') ? focused.closest('label') : focused;
    const {outlineStyle, outlineWidth} = getComputedStyle(drawn);
    const reach = focused.querySelector(':scope > .reach');
    const shown = reach ? getComputedStyle(reach).stroke !== 'rgba(0, 0, 0, 0)'
                        : outlineStyle !== 'none' && outlineWidth !== '0px';
    const {top, bottom} = drawn.getBoundingClientRect();
    return {what: `${focused.tagName} ${focused.id} ${focused.dataset.port ?? ''}`, shown,
            card: focused.closest('main > *')?.className ?? '', link: reach !== null,
            seen: bottom > 0 && top < innerHeight, body: focused === document.body};
}"""


@pytest.fixture(scope="module")
def full_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose page has something in each card, a demoted host, and runs of each state."""
    folder = tmp_path_factory.mktemp("full")
    server = Server(folder, None, "--runs", str(folder / "runs"))
    server.start()
    with known_runs(folder / "runs"), live_network(server):
        engine = open_store(server.store_url)
        put_sanction(engine, demotion())
        engine.dispose()
        yield server
    server.stop()


@pytest.fixture
def quiet(shared_page: Page, full_server: Server) -> Iterator[Page]:
    """The page, wide and with all of it there. A message in its console fails the test."""
    messages: list[str] = []

    def note(message: ConsoleMessage) -> None:
        messages.append(f"{message.type}: {message.text}")

    shared_page.on("console", note)
    flow = WATCHED_FLOW | {"id": f"watched/{time.time_ns()}", "started_at": time.time()}
    full_server.post("flows", [flow])
    if not shared_page.url.startswith(full_server.url):
        open_dashboard(shared_page, full_server, FEW_FLOWS)
        open_page(shared_page)
        until(shared_page, "document.querySelectorAll('#flows tbody tr[data-id]').length > 0")
    resize(shared_page, "wide")
    yield shared_page
    shared_page.remove_listener("console", note)
    assert [text for text in messages if EXPECTED_MESSAGE not in text] == []


def resize(page: Page, window: str) -> None:
    width, height = WINDOWS[window]
    page.set_viewport_size({"width": width, "height": height})


def test_keyboard__reaches_the_cards_in_the_order_in_which_they_are_seen(quiet: Page) -> None:
    order = quiet.evaluate("[...document.querySelectorAll('main > *')].map((card) => card.className)")
    for window in reversed(WINDOWS):
        resize(quiet, window)
        seen = quiet.evaluate(
            """[...document.querySelectorAll('main > *')]
                .map((card) => ({name: card.className, box: card.getBoundingClientRect()}))
                .sort((a, b) => a.box.top - b.box.top || a.box.left - b.box.left).map((card) => card.name)"""
        )
        assert order == seen, window
    stops = []
    quiet.keyboard.press("Tab")
    while not (stop := quiet.evaluate(_FOCUSED))["body"]:
        stops.append(stop)
        quiet.keyboard.press("Tab")
    assert [stop["what"] for stop in stops if not (stop["shown"] and stop["seen"])] == []
    visited = [order.index(stop["card"]) for stop in stops if stop["card"]]
    assert visited == sorted(visited)
    assert len(set(visited)) == len(order), "every card has a control"
    assert sum(stop["link"] for stop in stops) == 1, "the links of the network are one stop"


def test_keyboard__skips_the_bar_and_moves_from_link_to_link(quiet: Page) -> None:
    quiet.keyboard.press("Tab")
    assert quiet.evaluate("document.activeElement.className") == "skip"
    quiet.keyboard.press("Enter")
    assert quiet.evaluate("document.activeElement.id") == "main"
    ports = quiet.evaluate(
        "[...document.querySelectorAll('#topology .link')].map((link) => link.dataset.port)"
    )
    quiet.locator("#topology .link").first.focus()
    for key, expected in (("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowUp", -1), ("Home", 0), ("End", -1)):
        quiet.keyboard.press(key)
        assert quiet.evaluate("document.activeElement.dataset.port") == ports[expected], key
    quiet.keyboard.press("Enter")
    until(quiet, "(port) => document.querySelector('#queues-port').value === port", ports[-1])
    # Tab leaves the network, and comes back to the link that was left.
    quiet.keyboard.press("Tab")
    assert quiet.evaluate("document.activeElement.closest('#topology') === null")
    quiet.keyboard.press("Shift+Tab")
    assert quiet.evaluate("document.activeElement.dataset.port") == ports[-1]


def test_screen_reader__gets_new_events_and_no_old_ones(quiet: Page, full_server: Server) -> None:
    assert quiet.locator("#events li").count() > 1
    assert quiet.inner_text("#announcement") == ""
    engine = open_store(full_server.store_url)
    add_event(engine, "switch-connected", switch="s2")
    engine.dispose()
    until(quiet, "document.getElementById('announcement').textContent === 'Switch connected: switch s2'")


def test_texts_that_stay_the_same_are_not_written_again(quiet: Page) -> None:
    """A live region would read them aloud each second."""
    quiet.evaluate(
        """() => {
            window.written = [];
            for (const region of document.querySelectorAll('[role=status], [role=alert], [aria-live]')) {
                let last = region.textContent;
                new MutationObserver(() => {
                    if (region.textContent === last) written.push(region.id || region.className);
                    last = region.textContent;
                }).observe(region, {childList: true, characterData: true, subtree: true});
            }
            window.observedAt = sluice.model.snapshot.at;
        }"""
    )
    until(quiet, "sluice.model.snapshot.at > observedAt + 2")
    assert quiet.evaluate("written") == []


def test_nothing_moves_for_a_reader_who_prefers_that(quiet: Page) -> None:
    moving = """[...document.querySelectorAll('*')].filter((element) => {
        const {transitionDuration, animationName} = getComputedStyle(element);
        return transitionDuration !== '0s' || animationName !== 'none';
    }).map((element) => element.tagName)"""
    assert quiet.evaluate(moving) == ["MAIN"]
    quiet.emulate_media(reduced_motion="reduce")
    assert quiet.evaluate(moving) == []
    quiet.emulate_media(reduced_motion="no-preference")


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_view__has_no_findings_and_every_control_is_in_reach(
    quiet: Page, full_server: Server, view: View
) -> None:
    if view.path:
        quiet.goto(full_server.url + view.path)
    view.open(quiet)
    quiet.emulate_media(color_scheme="dark")
    assert findings(quiet, view.scope, "color-contrast") == []
    quiet.emulate_media(color_scheme="light")
    for window in WINDOWS:
        resize(quiet, window)
        assert findings(quiet, view.scope) == [], window
        assert defects(quiet, view.scope) == [], window


def with_health_alone(route: Route) -> None:
    """Answer with the true document of the API, but of one path. To draw all of them costs seconds."""
    answer = route.fetch()
    document = answer.json()
    document["paths"] = {path: item for path, item in document["paths"].items() if path.endswith("/health")}
    assert len(document["paths"]) == 1
    route.fulfill(response=answer, json=document)


def test_api__its_page_lists_the_endpoints_sends_requests_and_has_both_themes(
    shared_page: Page, full_server: Server
) -> None:
    """It works under the Content-Security-Policy of the application."""
    errors: list[str] = []
    shared_page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    shared_page.route("**/openapi.json", with_health_alone)
    shared_page.goto(f"{full_server.url}/openapi/")
    endpoint = shared_page.locator("#operations-network-network_health_health_get")
    endpoint.locator("button").first.click()
    endpoint.get_by_role("button", name="Try it out").click()
    endpoint.get_by_role("button", name="Execute").click()
    shared_page.get_by_text('"status"').first.wait_for()
    for theme in THEMES:
        shared_page.emulate_media(color_scheme=theme)
        until(shared_page, IS_LIGHT, theme == "light")
    assert errors == []
