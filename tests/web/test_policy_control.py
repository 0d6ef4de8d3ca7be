# SPDX-License-Identifier: Apache-2.0
"""The card of the dashboard that changes the policy, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.runtime.wait import wait_until
from sluice.store.desired import mark_applied, put_policy
from tests.web.conftest import PATIENCE_S, TOKEN, Server
from tests.web.dashboard import attribute, choose, open_dashboard, until
from tests.web.synthetic import Network

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web

MARKS = ("mark_at", "mark_min", "mark_max")


def test_the_scheme_is_switched_with_the_token_and_shows_on_the_charts(
    page: Page, busy_server: Server
) -> None:
    server = busy_server
    open_dashboard(page, server)
    until(page, "document.querySelector('[data-kpi=policy]').dataset.state === 'applied'")
    marks = len(attribute(page, "#fct-chart", "data-marks").split())
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


def test_the_token_in_the_address_is_taken_and_removed(page: Page, server: Server, network: Network) -> None:
    open_dashboard(page, server, f"#token={TOKEN}")
    assert page.evaluate("location.hash") == ""
    choose(page, "tcp")
    page.click("#apply")
    wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert page.locator("#token-field").is_hidden()


def test_a_change_is_pending_until_the_controller_has_applied_it(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    put_policy(engine, Policy.from_document({"scheme": "tcp"}), "test")
    mark_applied(engine, 1)
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "pias")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('pending')")
    until(page, "document.querySelector('#control-state').textContent === 'Version 2 pending'")
    assert "pias" not in attribute(page, "#fct-chart", "data-marks")
    mark_applied(engine, 2)
    until(page, "document.querySelector('#control-message').textContent.includes('is applied')")
    until(page, "document.querySelector('#fct-chart').dataset.marks.endsWith('pias')")


def test_refused_parameters_are_shown_at_their_field(page: Page, server: Server, network: Network) -> None:
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "pias")
    page.click("summary")
    page.fill("[name=queues]", "3")
    page.fill("[name=thresholds]", "100KB, 20KB")
    page.click("#apply")
    page.wait_for_selector("[data-field=thresholds].wrong")
    assert "must increase" in page.inner_text("#control-message")
    assert server.get("policy")["current"] is None
    page.fill("[name=thresholds]", "20 KB, 100KB")
    page.click("#apply")
    stored = wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert stored["policy"]["thresholds"] == [20_000, 100_000]
    assert page.locator(".wrong").count() == 0


def test_a_scheme_offers_the_marking_thresholds_that_it_takes(
    page: Page, server: Server, network: Network
) -> None:
    """The form has K, both ends of a ramp, or none. It does not send a threshold of another scheme."""
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "dctcp")
    page.click("summary")
    assert [page.locator(f"[name={name}]").is_visible() for name in MARKS] == [True, False, False]
    # what fits the links of 100 Mb/s, once the preview has come
    until(page, "document.querySelector('[name=mark_at]').placeholder === '18 KB'")
    page.fill("[name=mark_at]", "20pkt")
    choose(page, "datcp")
    assert [page.locator(f"[name={name}]").is_visible() for name in MARKS] == [False, True, True]
    until(page, "document.querySelector('[name=mark_min]').placeholder === '14.8 KB'")
    assert page.get_attribute("[name=mark_max]", "placeholder") == "22.2 KB"
    page.fill("[name=mark_min]", "30KB")
    page.click("#apply")
    page.wait_for_selector("[data-field=mark_max].wrong")
    page.fill("[name=mark_min]", "10 KB")
    page.click("#apply")
    stored = wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert {name: stored["policy"][name] for name in MARKS} == {
        "mark_at": None,
        "mark_min": 10_000,
        "mark_max": 22_153,
    }
    choose(page, "tcp")
    assert not any(page.locator(f"[name={name}]").count() for name in MARKS)


def test_fields_of_every_kind_reach_the_policy(page: Page, server: Server, network: Network) -> None:
    """Values also work in the form's own notation: sizes and times with a space before the unit."""
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "fish")
    page.click("summary")
    assert attribute(page, "[name=release]", "placeholder") == "1 ms"
    assert page.inner_text("[name=flow_queues] option:first-child") == "yes"
    assert page.inner_text("[data-field=idle_gap_ms]") == "Idle gap, ms"
    entered = {
        "queues": "2",
        "thresholds": "20 KB",
        "shares": "0.9, 0.1",
        "release": "2 ms",
        "buffer": "90000",
    }
    for name, text in entered.items():
        page.fill(f"[name={name}]", text)
    page.select_option("[name=flow_queues]", "yes")
    page.click("#apply")
    stored = wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    wanted = {
        "queues": 2,
        "thresholds": [20_000],
        "shares": [0.9, 0.1],
        "release": 2_000_000,
        "buffer": 90_000,
    }
    assert stored["policy"] | wanted | {"flow_queues": True} == stored["policy"]


def test_the_card_shows_what_a_scheme_would_change_before_it_is_applied(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    in_force = {"scheme": "mlfq-adaptive", "queues": 4, "mark_at": "12pkt", "buffer": "60KB"}
    mark_applied(engine, put_policy(engine, Policy.from_document(in_force), "test"))
    open_dashboard(page, server, f"#token={TOKEN}")
    assert page.inner_text("#preview") == ""
    choose(page, "pias")
    until(page, "document.querySelector('#preview').textContent.includes('Queues 4 → 8')")
    shown = page.inner_text("#preview")
    assert "Buffer" not in shown
    assert "Mark at" not in shown
    assert server.get("policy")["current"]["version"] == 1
    page.click("summary")
    page.fill("[name=buffer]", "90KB")
    until(page, "document.querySelector('#preview').textContent.includes('Buffer 60 KB → 90 KB')")
    page.fill("[name=thresholds]", "best")
    until(page, "document.querySelector('#preview .refused')?.textContent.includes('optimal, pias')")
    page.fill("[name=thresholds]", "")
    page.click("#apply")
    until(page, "document.querySelector('#preview').textContent === ''")
    stored = wait_until(lambda: server.get("policy")["current"], "the policy is stored", timeout_s=PATIENCE_S)
    assert (stored["policy"]["mark_at"], stored["policy"]["buffer"]) == (18_000, 90_000)


def test_page__names_a_port_that_the_network_lacks_or_that_has_left(
    page: Page, server: Server, network: Network, engine: Engine
) -> None:
    open_dashboard(page, server, f"#token={TOKEN}")
    choose(page, "tcp")
    page.click("#control summary")
    page.fill('#parameters [name="acts_at"]', "s1:1, s9:1")
    page.click("#apply")
    until(page, "document.querySelector('#control-message').textContent.includes('has no port \"s9:1\"')")
    assert page.locator('label.wrong [name="acts_at"]').count() == 1
    put_policy(engine, Policy.from_document({"scheme": "tcp", "acts_at": ["s9:1"]}), "before it left")
    page.click("#apply")
    page.wait_for_selector("#control-warnings:not([hidden])")
    assert "acts_at: the network has no port " in page.inner_text("#control-warnings")
    page.fill('#parameters [name="acts_at"]', "s1:1")
    page.click("#apply")
    page.wait_for_selector("#control-warnings", state="hidden")
