# SPDX-License-Identifier: Apache-2.0
"""The dashboard as a test uses it: open it, read it, wait for it."""

from tests.web.conftest import Page, Request, Server, eventually

LIVE = 'body[data-live="live"]'


def open_dashboard(page: Page, server: Server, fragment: str = "") -> None:
    """Open the page and wait until it is live. Raises AssertionError with the server's log if it is not."""
    pending: dict[Request, str] = {}

    def answered(request: Request) -> None:
        pending.pop(request, None)

    page.on("request", lambda request: pending.update({request: request.url}))
    page.on("requestfinished", answered)
    page.on("requestfailed", answered)
    page.goto(f"{server.url}/{fragment}")
    try:
        page.wait_for_selector(LIVE)
    except Exception as error:
        log = (server.folder / "web.log").read_text()
        raise AssertionError(f"not live; unanswered: {list(pending.values())}; log:\n{log}") from error
    page.wait_for_selector("#schemes input[value=tcp]", state="attached")


# Playwright shows all its tabs as visible ones, so the page is told that it is hidden.
_SHOW = """(isShown) => {
    Object.defineProperty(document, 'hidden', {configurable: true, value: !isShown});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def show(page: Page, *, shown: bool) -> None:
    """Tell the page that its tab is shown or hidden."""
    page.evaluate(_SHOW, shown)


def until(page: Page, script: str, argument: object = None) -> None:
    """Wait for a condition in the page.

    Playwright's own function evaluates text in the page, which the page's content security policy
    forbids.
    """
    eventually(lambda: page.evaluate(script, argument), script)


def attribute(page: Page, selector: str, name: str) -> str:
    """Return the value of an attribute that the element has."""
    value = page.get_attribute(selector, name)
    assert value is not None, f"{selector} has no {name}"
    return value


def figure(page: Page, name: str) -> str:
    """Return a figure at the top of the page."""
    return page.inner_text(f'[data-kpi="{name}"] .value')


def row_ids(page: Page, table: str) -> list[str]:
    """Return the id of each row of a table of flows."""
    script = "(table) => [...document.querySelectorAll(`#${table} tbody tr`)].map((tr) => tr.dataset.id)"
    return list(page.evaluate(script, table))


def choose(page: Page, scheme: str) -> None:
    page.locator(f'#schemes input[value="{scheme}"]').check(force=True)


WATCHED_FLOW = {
    "id": "watched/0123456789ab/7.1000",
    "src": "h3",
    "src_port": 40_000,
    "dst": "fd00::7",
    "dst_port": 443,
    "bytes": 10_000_000,
    "size_class": "medium",
    "started_at": 1e9,
    "fct_us": 1e6,
    "ideal_us": None,
    "deadline_us": 5e5,
    "met": False,
    "retransmissions": 3,
    "congestion_control": "cubic",
    "scheme": "pias",
    "status": "finished",
    "source": "watched",
    "lasted_us": 2e6,
}
