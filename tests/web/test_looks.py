# SPDX-License-Identifier: Apache-2.0
"""Every view of the dashboard in wide and narrow windows, in both themes, by mouse, keyboard and screen reader.

`views.py` lists the views.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from sluice.store.engine import open_store
from sluice.store.observed import Sanction, add_event, put_sanction
from tests.web.conftest import Server, live_network
from tests.web.dashboard import WATCHED_FLOW, open_dashboard, until
from tests.web.known_runs import VIEWS, View, known_runs, open_page
from tests.web.looks import defects, findings

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web

WINDOWS = {"wide": (1440, 900), "narrow": (420, 900)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
EXPECTED_MESSAGE = "401 (Unauthorized)"
"""Chromium notes each refused request, and the form's view sends a wrong token."""
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
        flow = "TCP 10.0.0.2:40000 > 10.0.0.1:80"
        put_sanction(
            engine, Sanction("s1:2", "h2", flow, 1, 1_200_000, 475_000, 0.95, 2, 1e4, since=time.time())
        )
        engine.dispose()
        yield server
    server.stop()


@pytest.fixture
def quiet(page: Page) -> Iterator[Page]:
    """The page. A message in its console fails the test."""
    messages: list[str] = []
    page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    yield page
    assert [text for text in messages if EXPECTED_MESSAGE not in text] == []


def show(page: Page, server: Server, window: str) -> None:
    width, height = WINDOWS[window]
    page.set_viewport_size({"width": width, "height": height})
    server.post("flows", [WATCHED_FLOW | {"id": f"watched/{time.time_ns()}", "started_at": time.time()}])
    open_dashboard(page, server)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_view__has_no_findings_and_every_control_is_in_reach(
    quiet: Page, full_server: Server, view: View, window: str
) -> None:
    show(quiet, full_server, window)
    if view.path:
        quiet.goto(full_server.url + view.path)
    view.open(quiet)
    found: dict[str, Any] = {}
    for theme in THEMES:
        quiet.emulate_media(color_scheme=theme)
        found[theme] = findings(quiet, view.scope)
    assert found == {"light": [], "dark": []}
    assert defects(quiet, view.scope) == []


@pytest.mark.parametrize("window", WINDOWS)
def test_keyboard__reaches_the_cards_in_the_order_in_which_they_are_seen(
    quiet: Page, full_server: Server, window: str
) -> None:
    show(quiet, full_server, window)
    open_page(quiet)
    order = quiet.evaluate(
        """[...document.querySelectorAll('main > *')]
            .map((card) => ({name: card.className, box: card.getBoundingClientRect()}))
            .sort((a, b) => a.box.top - b.box.top || a.box.left - b.box.left).map((card) => card.name)"""
    )
    assert order == quiet.evaluate("[...document.querySelectorAll('main > *')].map((card) => card.className)")
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


def test_keyboard__skips_the_bar_and_moves_from_link_to_link(quiet: Page, full_server: Server) -> None:
    show(quiet, full_server, "wide")
    open_page(quiet)
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
    show(quiet, full_server, "wide")
    open_page(quiet)
    assert quiet.locator("#events li").count() > 1
    assert quiet.inner_text("#announcement") == ""
    engine = open_store(full_server.store_url)
    add_event(engine, "switch-connected", switch="s2")
    engine.dispose()
    until(quiet, "document.getElementById('announcement').textContent === 'Switch connected: switch s2'")


def test_texts_that_stay_the_same_are_not_written_again(quiet: Page, full_server: Server) -> None:
    """A live region would read them aloud each second."""
    show(quiet, full_server, "wide")
    open_page(quiet)
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


def test_nothing_moves_for_a_reader_who_prefers_that(quiet: Page, full_server: Server) -> None:
    moving = """[...document.querySelectorAll('*')].filter((element) => {
        const {transitionDuration, animationName} = getComputedStyle(element);
        return transitionDuration !== '0s' || animationName !== 'none';
    }).map((element) => element.tagName)"""
    show(quiet, full_server, "wide")
    assert quiet.evaluate(moving) == ["MAIN"]
    quiet.emulate_media(reduced_motion="reduce")
    assert quiet.evaluate(moving) == []
