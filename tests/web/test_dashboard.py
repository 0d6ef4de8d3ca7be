# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser, served by a real process."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import requests
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.runtime.wait import wait_until
from sluice.store.desired import mark_applied, put_policy
from sluice.store.observed import Sanction, lift_sanctions, put_sanction
from tests.kit.heartbeats import LIVING, document, watching
from tests.web.conftest import PATIENCE_S, Server
from tests.web.dashboard import LIVE, WATCHED_FLOW, attribute, figure, open_dashboard, until
from tests.web.synthetic import Network

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web

LIVING_HEARTBEAT = document(watching(replace(LIVING, src="h3", dst="fd00::7")))


def test_before_anything_has_happened_the_page_says_so(page: Page, server: Server) -> None:
    open_dashboard(page, server)
    assert "No network yet" in page.inner_text("#topology")
    assert "No flows have finished yet" in page.inner_text("#fct-chart .empty")
    assert "No events yet" in page.inner_text("#events")
    assert figure(page, "small-mean") == "–"
    assert figure(page, "policy") == "None yet"


def test_values_change_while_rows_arrive(page: Page, busy_server: Server) -> None:
    open_dashboard(page, busy_server)
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
    for chart in ("fct", "thresholds", "queues", "misses"):
        assert page.inner_text(f"#{chart}-chart .empty") == ""
        assert page.locator(f"#{chart}-chart canvas").count() == 1
        assert attribute(page, f"#{chart}-chart", "aria-label").count("now ") == 1
    assert page.locator("#topology .link[data-load]:not([data-load=''])").count() > 20


def test_history_is_there_at_once_with_its_policy_changes_marked(page: Page, busy_server: Server) -> None:
    open_dashboard(page, busy_server)
    until(page, "document.querySelector('#fct-chart').dataset.marks.includes('mlfq-adaptive')")
    marks = attribute(page, "#fct-chart", "data-marks").split()
    assert marks[-4:] == ["tcp", "dctcp", "pias", "mlfq-adaptive"]
    filled = "[...sluice.model.fct].filter(([, bin]) => bin.small.n).map(([at]) => at)"
    span_s = page.evaluate(f"(() => {{ const at = {filled}; return Math.max(...at) - Math.min(...at); }})()")
    assert span_s >= 50


def test_the_scoreboard_compares_the_versions_with_the_chosen_one(page: Page, busy_server: Server) -> None:
    open_dashboard(page, busy_server)
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


def test_a_link_is_chosen_by_mouse_and_by_key(page: Page, busy_server: Server) -> None:
    open_dashboard(page, busy_server)
    until(page, "document.querySelectorAll('#topology .link').length > 0")
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


def test_a_killed_server_shows_as_stale_and_the_page_recovers(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    policy = Policy.from_document({"scheme": "mlfq-adaptive"})
    version = put_policy(engine, policy, "test")
    mark_applied(engine, version)
    network.second(time.time(), policy, version)
    open_dashboard(page, server)
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    server.kill()
    page.wait_for_selector('body[data-live="stale"]')
    assert "Stale since" in page.inner_text("#live")
    missed_at = time.time()
    network.second(missed_at, policy, version)
    server.start()
    page.wait_for_selector(LIVE)
    assert page.inner_text("#live") == "Live"
    until(page, "(t) => sluice.model.snapshot.at > t", missed_at)
    # The chart also has what happened while the server was away.
    until(
        page,
        "(t) => [...sluice.model.fct].some(([at, b]) => at <= t && t < at + 2 && b.small.n > 0)",
        missed_at - 0.5,
    )


def test_switches_and_agents_that_leave_are_shown(page: Page, server: Server, network: Network) -> None:
    open_dashboard(page, server)

    def all_up() -> bool:
        network.heartbeats(1)
        up = page.locator("#components .pill[data-state=up]")
        return up.count() >= 23

    wait_until(all_up, "switches and agents are shown as up", timeout_s=PATIENCE_S, interval_s=0.5)
    # No component reports any more: after some seconds all count as away.
    until(page, "document.querySelectorAll('#components .pill[data-state=up]').length === 0")
    until(page, "document.querySelectorAll('#topology .host[data-state=down]').length === 16")
    assert page.inner_text("#components-summary") == "Degraded"


def test_a_demoted_host_is_named_above_everything_and_gone_when_it_is_restored(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    network.heartbeats(1)
    open_dashboard(page, server)
    assert page.is_hidden("#sanctions")
    flow = "TCP 10.0.0.2:40000 > 10.0.0.1:80"
    put_sanction(
        engine, Sanction("s1:2", "h2", flow, 1, 1_200_000, 475_000, 0.95, 2, 10.0, since=time.time())
    )
    until(page, "!document.getElementById('sanctions').hidden")
    said = page.inner_text("#sanctions")
    for part in ("h2 is demoted", "s1:2", "tag 1", flow, "1.2 MB", "475 KB", "950 ms", "10 s", "offence 2"):
        assert part in said
    assert page.locator("#topology .host.demoted").count() == 1
    lift_sanctions(engine, ["s1:2"])
    until(page, "document.getElementById('sanctions').hidden")
    assert page.locator("#topology .host.demoted").count() == 0


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (820, 1180), (390, 844)])
def test_nothing_is_cut_off_at_the_side(page: Page, busy_server: Server, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    open_dashboard(page, busy_server)
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inside = """() => [...document.querySelectorAll('.chart .uplot')].every((plot) => {
        const [inner, outer] = [plot.getBoundingClientRect(), plot.parentElement.getBoundingClientRect()];
        return inner.right <= outer.right + 1 && inner.bottom <= outer.bottom + 1;
    })"""
    until(page, inside)


def test_the_theme_is_chosen_and_remembered(page: Page, shared_server: Server) -> None:
    open_dashboard(page, shared_server)
    shade = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shade)
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Dark"
    assert page.evaluate(shade) != light
    page.reload()
    page.wait_for_selector(LIVE)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_other_programs_connections_show_while_they_live_and_when_they_have_ended(
    page: Page, server: Server, network: Network
) -> None:
    open_dashboard(page, server)
    until(page, "document.querySelector('#watched').textContent.includes('No host agent watches')")
    server.post("agents/h3", document(watching()))
    until(page, "document.querySelector('#watched').textContent.includes('No connection now')")
    server.post("agents/h3", LIVING_HEARTBEAT)
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
    server.post("agents/h3", document(watching(lost=4)))
    server.post("flows", [WATCHED_FLOW])
    until(page, "document.querySelector('#watched tr[data-state=ended]') !== null")
    assert page.locator("#watched tr").count() == 1
    text = page.inner_text("#watched tr")
    assert "10 MB" in text
    assert "80 Mb/s" in text
    assert "Missed" in text
    assert page.inner_text("#watched-summary") == "0 open, 1 ended, 4 missed"
    assert figure(page, "misses") == "–", "the figures are of scheduled flows"


def test_the_figures_of_applications_are_apart_from_scheduled_flows(page: Page, busy_server: Server) -> None:
    """Of the programs' flows, one of four misses its deadline, and each takes 4 times as long as alone."""
    flow = WATCHED_FLOW | {"bytes": 20_000, "size_class": "small", "fct_us": 4e3, "deadline_us": 5e3}
    page.goto("about:blank")

    def deliver() -> None:
        batch = [
            flow
            | {"id": f"app/{time.time_ns()}/{i}", "started_at": time.time(), "met": i > 0, "ideal_us": 1e3}
            for i in range(4)
        ]
        assert requests.post(f"{busy_server.url}/api/v1/flows", json=batch, timeout=PATIENCE_S).ok

    open_dashboard(page, busy_server)
    for choice, label in (("watched", "Applications"), ("scheduled", "Scheduled"), ("all", "All")):
        page.select_option("#traffic", choice)
        assert page.inner_text("#traffic option:checked") == label

    def shows(misses: str) -> bool:
        deliver()
        return figure(page, "misses") == misses

    page.select_option("#traffic", "watched")
    wait_until(lambda: shows("25"), "a quarter missed", timeout_s=PATIENCE_S, interval_s=0.5)
    wait_until(lambda: figure(page, "small-mean") == "4", "their FCT", timeout_s=PATIENCE_S)
    until(page, "[...sluice.model.fct.values()].some((bin) => bin.small.mean === 4000)")
    page.select_option("#traffic", "scheduled")
    wait_until(lambda: figure(page, "misses") != "25", "those of the schedule", timeout_s=PATIENCE_S)
    until(page, "![...sluice.model.fct.values()].some((bin) => bin.small.mean === 4000)")
