# SPDX-License-Identifier: Apache-2.0
"""A folder with a run or a sweep of each state, for tests of how the page of runs looks. Nothing is simulated."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice.policy.fabrics import SIMULATOR
from sluice.runs.progress import FILE, progress_file
from sluice.sweep.points import Point
from sluice.sweep.run import sweep_file
from tests.kit.bundles import document, sweep
from tests.web.conftest import Page
from tests.web.dashboard import choose, until

SCHEMES = ("dctcp", "pias")
FIGURES = {
    "classes": {"small": {"n": 40, "mean_us": 210.0, "p99_us": 900.0}},
    **dict.fromkeys(("deadlines", "missed", "unfinished"), 0),
}
POINTS = [Point(scheme, 0.5, 1, document(scheme)) for scheme in SCHEMES]


@contextmanager
def known_runs(folder: Path) -> Iterator[None]:
    """Keep a sweep with one of two points finished and a run under way. Others are done, incomplete and failed."""
    for name in ("done", "incomplete", "under-way"):
        sweep(folder / name, SCHEMES[: 2 if name == "done" else 1], [0.5], [1])
        points = {point.name: {"scheme": point.scheme, "document": point.document} for point in POINTS}
        (folder / name / "sweep.json").write_text(json.dumps({"on": SIMULATOR, "points": points}))
    with sweep_file(folder / "incomplete", POINTS, SIMULATOR) as file:
        file.fail(f"1 of 2 points failed; {POINTS[1].name}: the disk is full")
    with progress_file(folder / "failed", name="own", scheme="pias", on=SIMULATOR) as failed:
        failed.fail("the disk is full")
    with (
        sweep_file(folder / "under-way", POINTS, SIMULATOR),
        progress_file(folder / "alone", name="own", scheme="pias", on=SIMULATOR),
    ):
        _advance(folder / "under-way", share=0.5, recorded=1, scheduled=2, remaining_s=30.0)
        _advance(folder / "alone", share=0.4, recorded=40, scheduled=100, figures=FIGURES)
        yield


def _advance(folder: Path, **changes: object) -> None:
    """Change the progress at once; a run writes it only twice a second."""
    file = folder / FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


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
