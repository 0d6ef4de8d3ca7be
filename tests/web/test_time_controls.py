# SPDX-License-Identifier: Apache-2.0
"""Zoom, pause and the form of times, with mouse and keyboard, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.conftest import Server
from tests.web.dashboard import LIVE, open_dashboard, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web

VIEW = "(() => { const { from, to } = sluice.charts.fct.view; return [from, to]; })()"


@pytest.fixture
def running(page: Page, busy_server: Server) -> Page:
    """Return the page of a busy network, with a minute of history."""
    open_dashboard(page, busy_server)
    until(page, "[...sluice.model.fct.values()].filter((bin) => bin.small.n).length > 20")
    return page


def view(page: Page) -> tuple[float, float]:
    """Return the range of time that the charts show."""
    start, end = page.evaluate(VIEW)
    return start, end


def test_a_drag_over_a_chart_zooms_all_charts_and_the_back_button_returns(running: Page) -> None:
    page = running
    box = page.locator("#fct-chart .u-over").bounding_box()
    assert box is not None
    before = view(page)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 60, steps=5)
    page.mouse.up()
    until(page, "location.search.includes('from=')")
    start, end = view(page)
    span = before[1] - before[0]
    assert start == pytest.approx(before[0] + 0.5 * span, abs=3 + 0.02 * span)
    assert end - start == pytest.approx(0.25 * span, rel=0.2)
    assert page.evaluate("sluice.charts.queues.view.from === sluice.charts.fct.view.from")
    # The server computes finer bins for the range than the live ones of 2 s.
    until(page, "(() => { const at = [...sluice.model.fct.keys()].sort(); return at[1] - at[0] < 1; })()")
    assert page.evaluate("[...sluice.model.fct.values()].some((bin) => bin.small.n)")
    page.reload()
    page.wait_for_selector(LIVE)
    assert view(page) == (start, end)
    page.go_back()
    until(page, "sluice.model.held === null")
    until(page, "(end) => sluice.charts.fct.view.to > end", end)


def test_pause_holds_the_charts_while_the_figures_go_on(running: Page) -> None:
    page = running
    page.click("#hold")
    assert page.get_attribute("#hold", "aria-pressed") == "true"
    held, at = view(page), page.evaluate("sluice.model.snapshot.at")
    until(page, "(at) => sluice.model.snapshot.at > at + 2", at)
    assert view(page) == held
    assert page.is_visible("#range")
    page.click("#hold")
    until(page, "(end) => sluice.charts.fct.view.to > end", held[1])
    assert page.is_hidden("#range")
    assert "from=" not in page.url


def test_keys_at_a_chart_zoom_and_move(running: Page) -> None:
    page = running
    page.focus("#misses-chart")
    start, end = view(page)
    page.keyboard.press("+")
    until(page, "sluice.model.held !== null")
    first = view(page)
    assert first[1] - first[0] == pytest.approx((end - start) / 2, abs=3)
    page.keyboard.press("ArrowLeft")
    assert view(page)[0] == pytest.approx(first[0] - (first[1] - first[0]) / 4, abs=0.2)
    page.keyboard.press("-")
    assert view(page)[1] - view(page)[0] == pytest.approx(2 * (first[1] - first[0]), abs=0.2)
    page.keyboard.press("Escape")
    until(page, "sluice.model.held === null")


def test_times_are_absolute_or_relative_and_the_address_says_which(running: Page) -> None:
    page = running
    page.select_option("#times", "relative")
    assert page.url.endswith("?times=relative")
    until(page, "document.querySelector('#flows tbody td')?.textContent.endsWith(' ago')")
    page.reload()
    page.wait_for_selector(LIVE)
    assert page.input_value("#times") == "relative"
    page.select_option("#window", "900")
    page.go_back()
    until(page, "sluice.model.windowS === 300 && document.querySelector('#window').value === '300'")
