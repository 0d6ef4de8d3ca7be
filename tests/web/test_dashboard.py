# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser, before a real server process."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import requests

from policy.desired import Policy
from runtime.wait import wait_until
from store.desired import mark_applied, put_policy
from store.sanctions import Sanction, lift_sanction, put_sanction
from tests.kit.heartbeats import LIVING, document, watching
from tests.web.conftest import PATIENCE_S, TOKEN

pytestmark = pytest.mark.web

MARKS = ("mark_at", "mark_min", "mark_max")

LIVE = 'body[data-live="live"]'


def kpi(page, name):
    return page.inner_text(f'[data-kpi="{name}"] .value')


def message(page):
    return page.inner_text("#control-message")


def until(page, script, argument=None):
    """Wait for a condition in the page. (Playwright's own way evaluates text in the page, which its policy forbids.)"""
    wait_until(lambda: page.evaluate(script, argument), script, timeout_s=PATIENCE_S, interval_s=0.1)


def open_dashboard(page, server, fragment=""):
    page.goto(f"{server.url}/{fragment}")
    try:
        page.wait_for_selector(LIVE)
    except Exception as error:
        log = (server.folder / "web.log").read_text()
        raise AssertionError(
            f"not live; unanswered: {list(page.pending_requests.values())}; log:\n{log}"
        ) from error
    page.wait_for_selector("#schemes input[value=tcp]", state="attached")


def choose(page, scheme):
    page.locator(f'#schemes input[value="{scheme}"]').check(force=True)


def test_before_anything_has_happened_the_page_says_so(page, server):
    open_dashboard(page, server)
    assert "No network yet" in page.inner_text("#topology")
    assert "No flows have finished yet" in page.inner_text("#fct-chart .empty")
    assert "No events yet" in page.inner_text("#events")
    assert kpi(page, "small-mean") == "–"
    assert kpi(page, "policy") == "None yet"


def test_values_change_while_rows_arrive(page, server, traffic):
    open_dashboard(page, server)
    until(page, "document.querySelectorAll('#topology .switch').length === 6")
    until(page, "document.querySelectorAll('#topology .host').length === 16")
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    first = page.evaluate(
        """() => ({
            kpis: [...document.querySelectorAll('.kpi .value')].map((e) => e.textContent).join(),
            bins: [...sluice.model.fct.keys()].sort().pop(),
            at: sluice.model.snapshot.at,
            rate: sluice.model.rates.get(sluice.choice.queues).length,
            threshold: [...sluice.model.thresholds.values()].flat().length,
        })"""
    )
    until(
        page,
        "(f) => [...document.querySelectorAll('.kpi .value')].map((e) => e.textContent).join() !== f.kpis",
        first,
    )
    until(page, "(f) => [...sluice.model.fct.keys()].sort().pop() > f.bins", first)
    until(page, "(f) => sluice.model.rates.get(sluice.choice.queues).length > f.rate", first)
    until(page, "(f) => [...sluice.model.thresholds.values()].flat().length > f.threshold", first)
    for chart in ("fct", "thresholds", "queues", "misses"):
        assert page.inner_text(f"#{chart}-chart .empty") == ""
        assert page.locator(f"#{chart}-chart canvas").count() == 1
        assert page.get_attribute(f"#{chart}-chart", "aria-label").count("now ") == 1
    assert page.locator("#topology .link[data-load]:not([data-load=''])").count() > 20


def test_history_is_there_at_once_with_its_policy_changes_marked(page, server, traffic):
    open_dashboard(page, server)
    until(page, "document.querySelector('#fct-chart').dataset.marks.includes('mlfq-adaptive')")
    marks = page.get_attribute("#fct-chart", "data-marks").split()
    assert marks[-4:] == ["tcp", "dctcp", "pias", "mlfq-adaptive"]
    filled = "[...sluice.model.fct].filter(([, bin]) => bin.small.n).map(([at]) => at)"
    span_s = page.evaluate(f"(() => {{ const at = {filled}; return Math.max(...at) - Math.min(...at); }})()")
    assert span_s >= 50


def test_the_scheme_is_switched_with_the_token_and_shows_on_the_charts(page, server, traffic):
    open_dashboard(page, server)
    until(page, "document.querySelector('[data-kpi=policy]').dataset.state === 'applied'")
    marks = len(page.get_attribute("#fct-chart", "data-marks").split())
    choose(page, "dctcp")
    page.click("#apply")
    page.wait_for_selector("#token-field:not([hidden])")
    page.fill("#token", "wrong")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('refused')")
    assert server.get("policy")["current"]["policy"]["scheme"] == "mlfq-adaptive"
    page.fill("#token", TOKEN)
    page.click("#apply")
    until(page, "document.querySelector('[data-kpi=policy] .value').textContent === 'DCTCP'")
    until(page, "document.querySelector('#control-message').dataset.kind === 'ok'")
    assert page.locator("#token-field").is_hidden()
    until(page, "(n) => document.querySelector('#fct-chart').dataset.marks.split(' ').length > n", marks)
    for chart in ("fct", "thresholds", "queues", "misses"):
        until(page, "(c) => document.querySelector(`#${c}-chart`).dataset.marks.endsWith('dctcp')", chart)
    assert server.get("policy")["current"]["policy"]["scheme"] == "dctcp"
    until(page, "document.querySelector('#events').textContent.includes('Policy applied')")


def test_the_token_in_the_address_is_taken_and_removed(page, server, network):
    open_dashboard(page, server, f"#token={TOKEN}")
    assert page.evaluate("location.hash") == ""
    choose(page, "tcp")
    page.click("#apply")
    wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert page.locator("#token-field").is_hidden()


def test_a_change_is_pending_until_the_controller_has_applied_it(page, server, engine, network):
    put_policy(engine, Policy.from_document({"scheme": "tcp"}), "test")
    mark_applied(engine, 1)
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "pias")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('pending')")
    until(page, "document.querySelector('#control-state').textContent === 'Version 2 pending'")
    assert "pias" not in page.get_attribute("#fct-chart", "data-marks")
    mark_applied(engine, 2)
    until(page, "document.querySelector('#control-message').textContent.includes('is applied')")
    until(page, "document.querySelector('#fct-chart').dataset.marks.endsWith('pias')")


def test_refused_parameters_are_shown_at_their_field(page, server, network):
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "pias")
    page.click("summary")
    page.fill("[name=queues]", "3")
    page.fill("[name=thresholds]", "100KB, 20KB")
    page.click("#apply")
    page.wait_for_selector("[data-field=thresholds].wrong")
    assert "must increase" in message(page)
    assert server.get("policy")["current"] is None
    page.fill("[name=thresholds]", "20 KB, 100KB")
    page.click("#apply")
    stored = wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert stored["policy"]["thresholds"] == [20_000, 100_000]
    assert page.locator(".wrong").count() == 0


def test_a_scheme_offers_the_marking_thresholds_that_it_takes(page, server, network):
    """K, both ends of a ramp, or none; a threshold that another scheme takes is not sent along."""
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "dctcp")
    page.click("summary")
    assert [page.locator(f"[name={name}]").is_visible() for name in MARKS] == [True, False, False]
    assert page.get_attribute("[name=mark_at]", "placeholder") == "97.5 KB"
    page.fill("[name=mark_at]", "20pkt")
    choose(page, "datcp")
    assert [page.locator(f"[name={name}]").is_visible() for name in MARKS] == [False, True, True]
    assert page.get_attribute("[name=mark_min]", "placeholder") == "80 KB"
    assert page.get_attribute("[name=mark_max]", "placeholder") == "120 KB"
    page.fill("[name=mark_min]", "130KB")
    page.click("#apply")
    page.wait_for_selector("[data-field=mark_max].wrong")
    page.fill("[name=mark_min]", "40 KB")
    page.click("#apply")
    stored = wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert {name: stored["policy"][name] for name in MARKS} == {
        "mark_at": None,
        "mark_min": 40_000,
        "mark_max": 120_000,
    }
    choose(page, "tcp")
    assert page.locator("#parameters input:visible").count() == 0
    assert page.inner_text("#parameters") == "This scheme has no parameters."


def test_a_link_is_chosen_by_mouse_and_by_key(page, server, traffic):
    open_dashboard(page, server)
    until(page, "document.querySelectorAll('#topology .link').length > 0")
    page.locator('#topology .link[data-port="s2:3"]').dispatch_event("click")
    until(page, "document.querySelector('#queues-port').value === 's2:3'")
    assert page.input_value("#thresholds-port") == "s2:3"
    assert page.locator('#topology .link.chosen[data-port="s2:3"]').count() == 1
    # A port's history is fetched, not only what has come since the page was opened.
    until(page, "Number(document.querySelector('#queues-chart').dataset.points) > 30")
    assert int(page.get_attribute("#thresholds-chart", "data-series")) >= 3
    page.locator('#topology .link[data-port="s5:1"]').focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#queues-port').value === 's5:1'")
    page.select_option("#thresholds-port", "")
    until(page, "document.querySelector('#thresholds-legend').textContent.includes('Median')")


def test_a_killed_server_shows_as_stale_and_the_page_recovers(page, server, engine, network):
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
    # What happened while the server was away is on the chart too.
    until(
        page,
        "(t) => [...sluice.model.fct].some(([at, b]) => at <= t && t < at + 2 && b.small.n > 0)",
        missed_at - 0.5,
    )


def test_switches_and_agents_that_leave_are_shown(page, server, network):
    open_dashboard(page, server)

    def all_up():
        network.heartbeats(1)
        return page.evaluate("document.querySelectorAll('#components .pill[data-state=up]').length >= 23")

    wait_until(all_up, "switches and agents are shown as up", timeout_s=PATIENCE_S, interval_s=0.5)
    # Nobody speaks any more: after some seconds all count as away.
    until(page, "document.querySelectorAll('#components .pill[data-state=up]').length === 0")
    until(page, "document.querySelectorAll('#topology .host[data-state=down]').length === 16")
    assert page.inner_text("#components-summary") == "Degraded"


def test_a_demoted_host_is_named_above_everything_and_gone_when_it_is_restored(page, server, engine, network):
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
    lift_sanction(engine, "s1:2")
    until(page, "document.getElementById('sanctions').hidden")
    assert page.locator("#topology .host.demoted").count() == 0


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (820, 1180), (390, 844)])
def test_nothing_is_cut_off_at_the_side(page, server, traffic, width, height):
    page.set_viewport_size({"width": width, "height": height})
    open_dashboard(page, server)
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inside = """() => [...document.querySelectorAll('.chart .uplot')].every((plot) => {
        const [inner, outer] = [plot.getBoundingClientRect(), plot.parentElement.getBoundingClientRect()];
        return inner.right <= outer.right + 1 && inner.bottom <= outer.bottom + 1;
    })"""
    until(page, inside)


def test_the_theme_is_chosen_and_remembered(page, server):
    open_dashboard(page, server)
    shade = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shade)
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Dark"
    assert page.evaluate(shade) != light
    page.reload()
    page.wait_for_selector(LIVE)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_other_programs_connections_show_while_they_live_and_when_they_have_ended(page, server, network):
    open_dashboard(page, server)
    until(page, "document.querySelector('#watched').textContent.includes('No host agent watches')")
    deliver(server, "agents/h3", LIVING_HEARTBEAT)
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
    deliver(server, "agents/h3", document(watching(lost=4)))
    deliver(server, "flows", [WATCHED_FLOW])
    until(page, "document.querySelector('#watched tr[data-state=ended]') !== null")
    assert page.locator("#watched tr").count() == 1
    text = page.inner_text("#watched tr")
    assert "10 MB" in text
    assert "80 Mb/s" in text
    assert "Missed" in text
    assert page.inner_text("#watched-summary") == "0 open, 1 ended, 4 missed"
    assert kpi(page, "misses") == "–", "the figures are of scheduled flows"


LIVING_HEARTBEAT = document(watching(replace(LIVING, src="h3", dst="fd00::7")))
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


def deliver(server, path, body):
    """As an agent does."""
    answer = requests.post(f"{server.url}/api/v1/{path}", json=body, timeout=30)
    assert answer.ok, answer.text
