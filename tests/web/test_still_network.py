# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a network that stands still unless a test writes rows, in a real browser.

First what a reader looks up: one host, the list of flows, the open connections. Then what changes the policy: the card
with its form, and the menu of a port. All tests share one page, and play the controller. Each leaves every version
applied.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.policy.wire.agents import LinkCounters, LinkQueue, RunningFlow
from sluice.store.access import create_token
from sluice.store.desired import current_policy, current_version, mark_applied, put_policy, put_topology
from tests.kit.heartbeats import LIVING, document, watching
from tests.kit.known import known
from tests.unit.webui.records import record
from tests.web.conftest import TOKEN, Page, Server, eventually
from tests.web.dashboard import (
    LIVE,
    WATCHED_FLOW,
    attribute,
    choose,
    figure,
    open_dashboard,
    row_ids,
    show,
    until,
)
from tests.web.synthetic import Network

pytestmark = pytest.mark.web

MARKS = ("mark_at", "mark_min", "mark_max")
ADAPTIVE = {"scheme": "mlfq-adaptive", "queues": 4, "mark_at": "12pkt", "buffer": "60KB"}


@pytest.fixture(scope="module")
def opened(shared_page: Page, shared_server: Server, shared_network: Network) -> Page:
    """Open the page of a network, with the token in its address."""
    open_dashboard(shared_page, shared_server, f"#token={TOKEN}")
    until(shared_page, "document.querySelectorAll('#host option').length === 17")
    return shared_page


@pytest.fixture
def page(opened: Page) -> Page:
    """The page, with the parameters of the scheme, which a reload folds."""
    opened.evaluate("() => { document.querySelector('#control details').open = true; }")
    return opened


# ── One host, flows, connections ─────────────────────────────────────────────────────────────────────────────────────

LIVING_HEARTBEAT = document(watching(replace(LIVING, src="h3", dst="fd00::7")))


def beat(**changes: Any) -> dict[str, Any]:
    """Return a heartbeat of h1 with flows under way and a loaded link."""
    now = time.time()
    running = (
        RunningFlow("run/1", "h2", "shuffle", 50_000, 20_000, now - 1, now + 600, 3, "sluice_dctcp", 250.0),
        RunningFlow("run/2", "h3", "", 50_000, 0, now - 9, now - 8, 0, "sluice_dctcp", 350.0),
    )
    link = LinkCounters(12.5, 9_000_000, 700, 4, 3_000, 8_000_000, 90_000, (LinkQueue(5_000_000, 4, 3_000),))
    beat = replace(watching(replace(LIVING, src="h1", dst="h4")), running=running, link=link)
    return document(
        replace(beat, controls_refused=2, spool_depth=7, link_queues="prio", version="9.8", **changes)
    )


def deliver(server: Server) -> None:
    now = time.time()
    late = {"deadline_us": 1e3}
    flows = [
        record("done", started_at=now - 3, met=True, **late),
        record("slow", started_at=now - 2, met=False, fct_us=9e6, label="shuffle", **late),
        record("lost", started_at=now - 1, status="unfinished", fct_us=None, reason="connection refused"),
        record("elsewhere", src="h7", dst="h8", scheme="dctcp", size_class="large"),
    ]
    server.post("flows", flows)


def reports(server: Server, shown: Callable[[], bool]) -> None:
    """Let h1 report until its page shows it. An agent that is silent for 5 s has no flows under way."""

    def once() -> bool:
        server.post("agents/h1", beat())
        return shown()

    eventually(once, "what h1 reports", interval_s=0.5)


def fact(page: Page, group: str, name: str) -> str:
    """Return a fact of the host view; the name may be the beginning."""
    script = """([group, name]) => [...document.querySelectorAll(`[data-group="${group}"] dt`)]
        .filter((dt) => dt.textContent.startsWith(name)).map((dt) => dt.nextElementSibling.textContent)[0] ?? ''"""
    return str(page.evaluate(script, [group, name]))


def test_other_programs_connections_show_while_they_live_and_when_they_have_ended(
    page: Page, shared_server: Server
) -> None:
    until(page, "document.querySelector('#watched').textContent.includes('No host agent watches')")
    shared_server.post("agents/h3", document(watching()))
    until(page, "document.querySelector('#watched').textContent.includes('No connection now')")
    shared_server.post("agents/h3", LIVING_HEARTBEAT)
    until(page, "document.querySelector('#watched tr[data-state=living]') !== null")
    assert page.locator("#watched tr td").all_inner_texts() == [
        "h3:40000",
        "h7:443",
        "Open",
        "5 MB",
        "80 Mb/s",
        page.locator("#watched tr td").nth(5).inner_text(),
        "3",
        "250 µs",
        "cubic",
        "",
    ]
    shared_server.post("agents/h3", document(watching(lost=4)))
    shared_server.post("flows", [WATCHED_FLOW])
    until(page, "document.querySelector('#watched tr[data-state=ended]') !== null")
    assert page.locator("#watched tr").count() == 1
    text = page.inner_text("#watched tr")
    assert "10 MB" in text
    assert "80 Mb/s" in text
    assert "Missed" in text
    assert page.inner_text("#watched-summary") == "0 open, 1 ended, 4 missed"
    assert figure(page, "misses") == "–", "the figures are of scheduled flows"


def test_a_chosen_host_shows_its_agent_its_flows_and_its_link(page: Page, shared_server: Server) -> None:
    deliver(shared_server)
    shared_server.post("agents/h1", beat())
    page.select_option("#host", "h1")
    page.wait_for_selector('#host-view[data-host="h1"]')
    reports(shared_server, lambda: fact(page, "Deadlines", "Under way") == "1")
    assert fact(page, "Agent", "Version") == "9.8"
    assert fact(page, "Agent", "Switch port") == "s1:1"
    assert fact(page, "Mechanisms", "Control") == "sluice_dctcp"
    assert fact(page, "Mechanisms", "Refused controls") == "2 connections"
    assert fact(page, "Records", "Spool") == "7 records"
    assert [fact(page, "Deadlines", name) for name in ("Met", "Missed", "Under way", "Passed")] == [
        "1",
        "1 (50 %)",
        "1",
        "1",
    ]
    assert fact(page, "Own link", "Sending") == "8 Mb/s (40 %)"
    assert fact(page, "Own link", "Dropped") == "4 packets"
    assert fact(page, "Own link", "Queue 0") == "5 MB, 3 KB waiting, 4 dropped"
    assert fact(page, "Flows", "Round trip, active").startswith("250 µs")
    assert set(row_ids(page, "host-flows")) == {"run/1", "run/2", LIVING.id, "done", "slow", "lost"}
    shared_server.post("agents/h1", {**beat(), "spool_depth": 99})
    eventually(lambda: fact(page, "Records", "Spool") == "99 records", "the next heartbeat")
    inside = """() => ['host-view', 'flow-list'].every((id) => {
        const card = document.getElementById(id), box = card.getBoundingClientRect();
        return [...card.querySelectorAll('header, dl, form, .rows')].every((part) => {
            const own = part.getBoundingClientRect();
            return own.left >= box.left - 1 && own.right <= box.right + 1 && own.bottom <= box.bottom + 1;
        });
    })"""
    for width in (420, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        until(page, inside)
    page.select_option("#host", "")
    until(page, "location.search === ''")


def test_the_address_holds_the_host_the_filter_and_the_order(page: Page, shared_server: Server) -> None:
    page.locator('#topology .host[data-host="h1"]').dispatch_event("click")
    page.wait_for_selector('#host-view[data-host="h1"]')
    page.click("#host-list")
    until(page, "document.querySelector('#flow-filter [name=host]').value === 'h1'")
    page.select_option("#flow-filter [name=status]", "finished")
    eventually(lambda: row_ids(page, "flows") == ["slow", "done"], "the filter")
    page.click("#flows th[data-column=fct] button")
    page.click("#flows th[data-column=fct] button")
    assert attribute(page, "#flows th[data-column=fct]", "aria-sort") == "ascending"
    assert page.url.endswith("?host=h1&flow-host=h1&flow-status=finished&sort=fct")
    page.reload()
    page.wait_for_selector(LIVE)
    eventually(lambda: row_ids(page, "flows") == ["done", "slow"], "the order")
    assert page.input_value("#host") == "h1"
    page.go_back()
    eventually(lambda: row_ids(page, "flows") == ["slow", "done"], "the order before")
    page.go_back()
    page.go_back()
    reports(shared_server, lambda: "run/1" in row_ids(page, "flows"))
    page.select_option("#flow-filter [name=status]", "active")
    page.fill("#flow-filter [name=label]", "shuffle")
    page.press("#flow-filter [name=label]", "Enter")
    reports(shared_server, lambda: row_ids(page, "flows") == ["run/1"])


# ── The policy ───────────────────────────────────────────────────────────────────────────────────────────────────────


def put_applied(page: Page, engine: Engine, document: dict[str, Any]) -> Policy:
    """Put a policy into force, and wait until the page shows it."""
    policy = Policy.from_document(document)
    version = put_policy(engine, policy, "test")
    mark_applied(engine, version)
    until(page, "(version) => sluice.model.snapshot.policy?.version === version", version)
    return policy


def apply_next(engine: Engine) -> None:
    """Play the controller: apply the version that the page puts."""
    eventually(lambda: known(current_policy(engine)).applied_at is None, "a version")
    mark_applied(engine, current_version(engine))


def stored_by(page: Page, engine: Engine, server: Server) -> dict[str, Any]:
    """Return the policy that the page puts, once it is applied."""
    apply_next(engine)
    until(page, "document.querySelector('#control-message').dataset.kind === 'ok'")
    return dict(server.get("policy")["current"]["policy"])


def test_a_change_is_pending_until_the_controller_has_applied_it(page: Page, shared_engine: Engine) -> None:
    assert page.evaluate("location.hash") == "", "the token is no longer where others could read it"
    put_applied(page, shared_engine, {"scheme": "tcp"})
    choose(page, "pias")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('pending')")
    until(page, "document.querySelector('#control-state').textContent === 'Version 2 pending'")
    assert page.locator("#token-field").is_hidden()
    assert "pias" not in attribute(page, "#fct-chart", "data-marks")
    mark_applied(shared_engine, 2)
    until(page, "document.querySelector('#control-message').textContent.includes('is applied')")
    until(page, "document.querySelector('#fct-chart').dataset.marks.endsWith('pias')")
    until(page, "document.querySelector('[data-kpi=policy] .value').textContent === 'PIAS'")


def test_a_scheme_offers_the_marking_thresholds_that_it_takes(
    page: Page, shared_engine: Engine, shared_server: Server
) -> None:
    """The form has K, both ends of a ramp, or none. It does not send a threshold of another scheme."""
    before = current_version(shared_engine)
    choose(page, "dctcp")
    assert [page.locator(f"[name={name}]").is_visible() for name in MARKS] == [True, False, False]
    # what fits the links of 100 Mb/s, once the preview has come
    until(page, "document.querySelector('[name=mark_at]').placeholder === '18 KB'")
    page.fill("[name=mark_at]", "20pkt")
    choose(page, "tcp")
    assert not any(page.locator(f"[name={name}]").count() for name in MARKS)
    choose(page, "datcp")
    assert [page.locator(f"[name={name}]").is_visible() for name in MARKS] == [False, True, True]
    until(page, "document.querySelector('[name=mark_min]').placeholder === '14.8 KB'")
    assert page.get_attribute("[name=mark_max]", "placeholder") == "22.2 KB"
    page.fill("[name=mark_min]", "30KB")
    page.click("#apply")
    page.wait_for_selector("[data-field=mark_max].wrong")
    assert current_version(shared_engine) == before
    page.fill("[name=mark_min]", "10 KB")
    page.click("#apply")
    stored = stored_by(page, shared_engine, shared_server)
    assert {name: stored[name] for name in MARKS} == {"mark_at": None, "mark_min": 10_000, "mark_max": 22_153}
    assert page.locator(".wrong").count() == 0


def test_the_card_shows_what_a_scheme_would_change_before_it_is_applied(
    page: Page, shared_engine: Engine, shared_server: Server
) -> None:
    put_applied(page, shared_engine, ADAPTIVE)
    before = current_version(shared_engine)
    assert page.inner_text("#preview") == ""
    choose(page, "pias")
    until(page, "document.querySelector('#preview').textContent.includes('Queues 4 → 8')")
    shown = page.inner_text("#preview")
    assert "Buffer" not in shown
    assert "Mark at" not in shown
    page.fill("[name=buffer]", "90KB")
    until(page, "document.querySelector('#preview').textContent.includes('Buffer 60 KB → 90 KB')")
    page.fill("[name=thresholds]", "best")
    until(page, "document.querySelector('#preview .refused')?.textContent.includes('optimal, pias')")
    assert current_version(shared_engine) == before
    page.fill("[name=thresholds]", "")
    page.click("#apply")
    until(page, "document.querySelector('#preview').textContent === ''")
    stored = stored_by(page, shared_engine, shared_server)
    assert (stored["mark_at"], stored["buffer"]) == (18_000, 90_000)


def test_page__names_a_port_that_the_network_lacks_or_that_has_left(
    page: Page, shared_engine: Engine
) -> None:
    choose(page, "tcp")
    page.fill('#parameters [name="acts_at"]', "s1:1, s9:1")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('has no port \"s9:1\"')")
    assert page.locator('label.wrong [name="acts_at"]').count() == 1
    left = Policy.from_document({"scheme": "tcp", "acts_at": ["s9:1"]})
    mark_applied(shared_engine, put_policy(shared_engine, left, "before it left"))
    page.click("#apply")
    apply_next(shared_engine)
    page.wait_for_selector("#control-warnings:not([hidden])")
    assert "acts_at: the network has no port " in page.inner_text("#control-warnings")
    page.fill('#parameters [name="acts_at"]', "s1:1")
    page.click("#apply")
    apply_next(shared_engine)
    page.wait_for_selector("#control-warnings", state="hidden")


@pytest.fixture
def adaptive(page: Page, shared_engine: Engine, shared_network: Network) -> None:
    """Apply a policy whose ports adapt, and write a second of rows."""
    policy = put_applied(page, shared_engine, ADAPTIVE)
    shared_network.second(time.time(), policy, current_version(shared_engine))
    until(page, "document.querySelectorAll('#topology .link').length > 0")


def open_menu(page: Page, port: str) -> None:
    page.locator(f'#topology .link[data-port="{port}"]').dispatch_event("contextmenu")
    page.wait_for_selector("#port-menu[open]")


def apply_override(page: Page, engine: Engine) -> None:
    """Apply the version that the menu puts."""
    apply_next(engine)
    until(page, "document.querySelector('#port-message').dataset.kind === 'ok'")


def overrides(server: Server) -> Any:
    return server.get("policy")["current"]["policy"]["overrides"]


@pytest.mark.usefixtures("adaptive")
def test_the_menu_shows_thresholds_and_freezes_fixes_and_frees_the_port(
    page: Page, shared_engine: Engine, shared_server: Server
) -> None:
    open_menu(page, "s2:3")
    assert page.inner_text("#port-title") == "Port s2:3 to h7"
    until(page, "document.querySelectorAll('#port-thresholds dd').length === 3")
    until(page, "document.querySelector('#port-source').textContent.startsWith('Computed by this port at ')")
    page.click("#port-freeze")
    apply_override(page, shared_engine)
    assert overrides(shared_server) == [{"ports": ["s2:3"], "freeze": True}]
    until(page, "document.querySelector('#port-remove').textContent === 'Unfreeze'")
    assert page.locator("#port-freeze").is_hidden()
    page.fill("#port-levels", "10 KB, 20KB, 30 KB")
    page.keyboard.press("Enter")
    apply_override(page, shared_engine)
    assert overrides(shared_server) == [{"ports": ["s2:3"], "thresholds": [10_000, 20_000, 30_000]}]
    until(page, "document.querySelector('#port-remove').textContent === 'Remove override'")
    page.click("#port-remove")
    apply_override(page, shared_engine)
    assert overrides(shared_server) == []
    page.fill("#port-levels", "10KB")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#port-message').dataset.kind === 'error'")
    assert "3" in page.inner_text("#port-message")
    page.keyboard.press("Escape")


@pytest.mark.usefixtures("adaptive")
def test_the_menu_opens_by_its_button_asks_for_the_token_and_closes_by_the_keyboard(
    page: Page, shared_engine: Engine, shared_server: Server
) -> None:
    page.evaluate("sessionStorage.clear()")
    until(page, "!document.querySelector('#port-open').disabled")
    page.locator('#topology .link[data-port="s2:3"]').dispatch_event("click")
    until(page, "document.querySelector('#port-open').textContent === 'Port s2:3…'")
    page.locator("#port-open").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#port-menu[open]")
    page.click("#port-freeze")
    page.wait_for_selector("#port-token-field:not([hidden])")
    assert "role change" in page.inner_text("#port-message")
    page.fill("#port-token", "wrong")
    page.click("#port-freeze")
    until(page, "document.querySelector('#port-message').textContent.includes('refused')")
    assert overrides(shared_server) == []
    page.fill("#port-token", TOKEN)
    page.keyboard.press("Enter")
    apply_override(page, shared_engine)
    assert overrides(shared_server) == [{"ports": ["s2:3"], "freeze": True}]
    page.keyboard.press("Escape")
    page.wait_for_selector("#port-menu:not([open])", state="attached")
    assert page.evaluate("document.activeElement.id") == "port-open"


@pytest.mark.usefixtures("adaptive")
def test_the_drawing_marks_the_chosen_port_by_its_name_and_bad_links_by_signs(
    page: Page, shared_engine: Engine, shared_network: Network
) -> None:
    assert page.locator("#topology .chosen-port").count() == 1
    assert page.locator("#topology .sign").count() == 0
    assert page.locator(".signs span:visible").count() == 0
    page.locator('#topology .link[data-port="s2:3"]').dispatch_event("click")
    until(page, "document.querySelector('#topology .chosen-port').textContent === 's2:3'")
    assert page.get_attribute('#topology .link[data-port="s2:3"]', "aria-pressed") == "true"
    changes: dict[str, Any] = {"s1:5": {"up": False}, "s3:2": {"rate_bps": 5_000_000, "delay_ns": 2_000_000}}
    topology = shared_network.topology
    ports = tuple(replace(port, **changes.get(port.id, {})) for port in topology.ports)
    put_topology(shared_engine, replace(topology, ports=ports))
    for shown in (False, True):  # a tab that is shown again fetches the network
        show(page, shown=shown)
    until(page, "document.querySelectorAll('#topology .sign').length === 2")
    assert page.get_attribute('#topology .link[data-port="s1:5"]', "data-link") == "down"
    named = page.get_attribute('#topology .link[data-port="s3:2"]', "aria-label") or ""
    assert "its rate is 5 Mb/s" in named
    assert "its delay is 2 ms" in named
    assert page.locator(".signs span:visible").all_inner_texts() == ["✕ Down", "◇ Impaired"]
    open_menu(page, "s1:5")
    until(page, "document.querySelector('#port-link').textContent === 'Down: the link is down.'")
    page.keyboard.press("Escape")


def test_a_reader_sees_why_the_button_is_off(page: Page, shared_engine: Engine) -> None:
    token = create_token(shared_engine, "wall", "read", time.time() + 600)
    page.evaluate("(token) => { location.hash = `token=${token}`; }", token)
    page.wait_for_selector("#apply:disabled")
    assert page.inner_text("#control-message") == (
        "Your token may only read. Changes need a token with the role change."
    )
