# SPDX-License-Identifier: Apache-2.0
"""The views of the dashboard: each page, dialog and menu whose looks the tests judge, and how to open it.

A new view gets one function and one line in `VIEWS`. `test_looks.py` opens it in a wide and in a narrow
window and judges it in both themes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.web.dashboard import choose, until

if TYPE_CHECKING:
    from playwright.sync_api import Page


@dataclass(frozen=True)
class View:
    name: str
    open: Callable[[Page], None]
    """Opens the view on the live dashboard, and returns when all of it is there."""
    scope: str = ""
    """A selector of the part that the view adds; empty: the whole page."""
    path: str = ""
    """The page's path, if it is not the dashboard."""


def open_page(page: Page) -> None:
    """Wait until every card has something to show."""
    until(page, "document.querySelectorAll('#scoreboard tr[data-version]').length >= 3")
    until(page, "document.querySelectorAll('#watched tr[data-state=ended]').length > 0")
    until(page, "document.querySelectorAll('#topology .link[data-load]:not([data-load=\"\"])').length > 0")
    until(page, "!document.getElementById('sanctions').hidden")


def open_form(page: Page) -> None:
    """Open the parameters of another scheme, with a preview, the token's field and a wrong value."""
    choose(page, "pias")
    page.click("#control summary")
    until(page, "document.querySelector('#preview').textContent.includes('Queues')")
    page.click("#apply")
    page.fill("#token", "wrong")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('refused')")


def open_runs(page: Page) -> None:
    """Open the page of runs with a sweep under way, the fields of a sweep and the token's field."""
    until(page, "document.querySelectorAll('#running article').length === 2")
    until(page, "document.querySelectorAll('#past tr[data-run]').length === 3")
    page.check("#as-sweep")
    page.check("input[aria-label='Choose done']")
    page.click("#start-button")
    until(page, "document.querySelector('#start-message').dataset.kind === 'error'")


VIEWS = (
    View("page", open_page),
    View("form", open_form, scope=".card.control"),
    View("runs", open_runs, path="/runs"),
)
