# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a busy network in a real browser: figures, charts, times and flows.

All tests share one page. Each leaves it live, in its first window, with the address that it had.
"""

import time
from collections.abc import Iterator

import pytest

from tests.web.conftest import Page, Server, eventually
from tests.web.dashboard import LIVE, WATCHED_FLOW, attribute, figure, open_dashboard, row_ids, until

pytestmark = pytest.mark.web

VIEW = "(() => { const { from, to } = sluice.charts.fct.view; return [from, to]; })()"
CHARTS = ("fct", "thresholds", "queues", "misses")
SHADE = "getComputedStyle(document.body).backgroundColor"
# In one step, because the list follows the network until the click.
CLICK_OLDER = """() => {
    const shown = [...document.querySelectorAll('#flows tbody tr[data-id]')].map((row) => row.dataset.id);
    document.querySelector('#flows-older').click();
    return shown;
}"""
# Gives the page's picture of the network forty hosts more.
GROW = """() => {
    const {topology} = sluice.model;
    const hosts = Array.from({length: 40}, (_, i) => ({name: `vm${i}`, ipv4: `192.0.2.${i}`, port: `s1:${100 + i}`}));
    const ports = hosts.map(({name}, i) => ({...topology.ports[0], number: 100 + i, peer: name, edge: true}));
    sluice.grown = topology;
    sluice.model.topology = {
        ...topology,
        hosts: [...topology.hosts, ...hosts.map((host) => ({...topology.hosts[0], ...host}))],
        ports: [...topology.ports, ...ports],
    };
}"""


@pytest.fixture
def page(request: pytest.FixtureRequest, shared_page: Page, busy_server: Server) -> Iterator[Page]:
    """The live page, with some history. After a failure it is loaded again."""
    if not shared_page.url.startswith(busy_server.url):
        open_dashboard(shared_page, busy_server)
        until(shared_page, "[...sluice.model.fct.values()].filter((bin) => bin.small.n).length > 20")
    failed_before = request.session.testsfailed
    yield shared_page
    if request.session.testsfailed > failed_before:
        shared_page.goto("about:blank")


def view(page: Page) -> tuple[float, float]:
    """Return the range of time that the charts show."""
    start, end = page.evaluate(VIEW)
    return start, end


def test_history_is_there_at_once_with_its_policy_changes_marked(page: Page) -> None:
    until(page, "document.querySelector('#fct-chart').dataset.marks.includes('mlfq-adaptive')")
    for chart in CHARTS:
        marks = attribute(page, f"#{chart}-chart", "data-marks").split()
        assert marks[-4:] == ["tcp", "dctcp", "pias", "mlfq-adaptive"], chart
    filled = "[...sluice.model.fct].filter(([, bin]) => bin.small.n).map(([at]) => at)"
    span_s = page.evaluate(f"(() => {{ const at = {filled}; return Math.max(...at) - Math.min(...at); }})()")
    assert span_s >= 50


def test_values_change_while_rows_arrive(page: Page) -> None:
    until(page, "document.querySelectorAll('#topology .switch').length === 6")
    until(page, "document.querySelectorAll('#topology .host').length === 16")
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    first = page.evaluate(
        """() => ({
            kpis: [...document.querySelectorAll('.kpi .value')].map((e) => e.textContent).join(),
            bins: [...sluice.model.fct.keys()].sort().pop(),
            at: sluice.model.snapshot.at,
            rate: sluice.model.rates.length,
            threshold: [...sluice.model.thresholds.values()].flat().length,
        })"""
    )
    until(
        page,
        "(f) => [...document.querySelectorAll('.kpi .value')].map((e) => e.textContent).join() !== f.kpis",
        first,
    )
    until(page, "(f) => [...sluice.model.fct.keys()].sort().pop() > f.bins", first)
    until(page, "(f) => sluice.model.rates.length > f.rate", first)
    until(page, "(f) => [...sluice.model.thresholds.values()].flat().length > f.threshold", first)
    for chart in CHARTS:
        assert page.inner_text(f"#{chart}-chart .empty") == ""
        assert page.locator(f"#{chart}-chart canvas").count() == 1
        assert attribute(page, f"#{chart}-chart", "aria-label").count("now ") == 1
    assert page.locator("#topology .link[data-load]:not([data-load=''])").count() > 20


def test_the_scoreboard_compares_the_versions_with_the_chosen_one(page: Page) -> None:
    until(page, "document.querySelectorAll('#scoreboard tr[data-version]').length >= 3")
    rows = page.locator("#scoreboard tr")
    assert rows.nth(0).get_attribute("data-base") == "true"
    assert "×" in rows.nth(1).inner_text()
    assert page.locator("#scoreboard-plot path").count() >= 3
    second = attribute(page, "#scoreboard tr:nth-child(2)", "data-version")
    page.select_option("#scoreboard-class", "large")
    until(page, "document.querySelector('#scoreboard-plot').textContent.includes('FCT of large flows')")
    page.select_option("#scoreboard-against", second)
    until(page, "document.querySelector('#scoreboard tr:nth-child(2)').dataset.base === 'true'")
    assert "×" in rows.nth(0).inner_text()


def test_a_link_is_chosen_by_mouse_and_by_key(page: Page) -> None:
    page.locator('#topology .link[data-port="s2:3"]').dispatch_event("click")
    until(page, "document.querySelector('#queues-port').value === 's2:3'")
    assert page.input_value("#thresholds-port") == "s2:3"
    assert page.locator('#topology .link.chosen[data-port="s2:3"]').count() == 1
    # The page fetches a port's history, and shows not only what arrived since it was opened.
    until(page, "Number(document.querySelector('#queues-chart').dataset.points) > 30")
    assert int(attribute(page, "#thresholds-chart", "data-series")) >= 3
    page.locator('#topology .link[data-port="s5:1"]').focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#queues-port').value === 's5:1'")
    page.select_option("#thresholds-port", "")
    until(page, "document.querySelector('#thresholds-legend').textContent.includes('Median')")


def test_a_reload_brings_back_the_range_the_times_the_older_flows_and_the_theme(page: Page) -> None:
    page.select_option("#times", "relative")
    until(page, "document.querySelector('#flows tbody td')?.textContent.endsWith(' ago')")
    until(page, "document.querySelectorAll('#flows tbody tr[data-id]').length === 100")
    newest = set(page.evaluate(CLICK_OLDER))
    until(page, "location.search.includes('before=')")
    until(page, "document.querySelector('#flows').getAttribute('aria-busy') === 'false'")
    eventually(lambda: len(set(row_ids(page, "flows")) - newest) == 100, "the older flows")
    older = row_ids(page, "flows")
    light = page.evaluate(SHADE)
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Dark"
    assert page.evaluate(SHADE) != light
    start, end = zoomed_by_a_drag(page)

    page.reload()
    page.wait_for_selector(LIVE)
    assert view(page) == (start, end)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.input_value("#times") == "relative"
    eventually(lambda: row_ids(page, "flows") == older, "the older flows")

    page.go_back()
    until(page, "sluice.model.held === null")
    until(page, "(end) => sluice.charts.fct.view.to > end", end)
    page.click("#flows-newest")
    until(page, "!location.search.includes('before=') && !document.querySelector('#flows-newest:enabled')")
    eventually(lambda: not set(row_ids(page, "flows")) & set(older), "new flows")
    page.select_option("#window", "900")
    page.go_back()
    until(page, "sluice.model.windowS === 300 && document.querySelector('#window').value === '300'")
    page.select_option("#times", "absolute")
    page.click("#theme")


def zoomed_by_a_drag(page: Page) -> tuple[float, float]:
    """Drag over a chart, and return the range that all charts show then."""
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
    until(page, "[...sluice.model.fct.values()].some((bin) => bin.small.n)")
    return start, end


def test_in_a_large_network_one_finds_a_host_by_its_address(page: Page) -> None:
    assert page.is_hidden("#node-search")
    page.evaluate(GROW)
    try:
        page.fill("#node-search", "192.0.2.7")
        assert page.inner_text("#node-count") == "1 found"
        assert page.text_content("#topology .host.found") == "vm7"
        page.press("#node-search", "Enter")
        until(page, "sluice.model.port === 's1:107'")
        page.fill("#node-search", "")
        assert page.inner_text("#node-count") == ""
        assert page.locator("#topology .found").count() == 0
    finally:
        page.evaluate("() => { sluice.model.topology = sluice.grown; }")
        page.go_back()
    until(page, "document.querySelector('#node-search').hidden")


def test_pause_holds_the_charts_while_the_figures_go_on(page: Page) -> None:
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


def test_the_figures_of_applications_are_apart_from_scheduled_flows(page: Page, busy_server: Server) -> None:
    """Of the programs' flows, one of four misses its deadline, and each takes 4 times as long as alone."""
    flow = WATCHED_FLOW | {"bytes": 20_000, "size_class": "small", "fct_us": 4e3, "deadline_us": 5e3}

    def deliver() -> None:
        batch = [
            flow
            | {"id": f"app/{time.time_ns()}/{i}", "started_at": time.time(), "met": i > 0, "ideal_us": 1e3}
            for i in range(4)
        ]
        busy_server.post("flows", batch)

    for choice, label in (("watched", "Applications"), ("all", "All"), ("scheduled", "Scheduled")):
        page.select_option("#traffic", choice)
        assert page.inner_text("#traffic option:checked") == label

    def shows(misses: str) -> bool:
        deliver()
        return figure(page, "misses") == misses

    page.select_option("#traffic", "watched")
    eventually(lambda: shows("25"), "a quarter missed", interval_s=0.5)
    eventually(lambda: figure(page, "small-mean") == "4", "their FCT")
    until(page, "[...sluice.model.fct.values()].some((bin) => bin.small.mean === 4000)")
    page.select_option("#traffic", "scheduled")
    eventually(lambda: figure(page, "misses") != "25", "those of the schedule")
    until(page, "![...sluice.model.fct.values()].some((bin) => bin.small.mean === 4000)")
