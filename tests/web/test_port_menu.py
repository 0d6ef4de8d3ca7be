# SPDX-License-Identifier: Apache-2.0
"""The menu of a port, the marks on links, the filter of events and the size classes, in a real browser."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.store.desired import mark_applied, put_policy, put_topology
from sluice.store.observed import add_event
from tests.web.conftest import TOKEN, Server
from tests.web.dashboard import open_dashboard, until
from tests.web.synthetic import Network

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web

ADAPTIVE = {"scheme": "mlfq-adaptive", "queues": 4}
PCAP = b"\xd4\xc3\xb2\xa1" + bytes(20)


@pytest.fixture
def policy(engine: Engine, network: Network) -> Policy:
    """Apply a policy and write a second of rows."""
    made = Policy.from_document(ADAPTIVE)
    version = put_policy(engine, made, "test")
    mark_applied(engine, version)
    network.second(time.time(), made, version)
    return made


def open_menu(page: Page, port: str) -> None:
    page.locator(f'#topology .link[data-port="{port}"]').dispatch_event("contextmenu")
    page.wait_for_selector("#port-menu[open]")


def applied(page: Page, engine: Engine, version: int) -> None:
    """Play the controller: apply the version as soon as the page asks for it."""
    until(page, "document.querySelector('#port-message').dataset.kind === 'pending'")
    mark_applied(engine, version)
    until(page, "document.querySelector('#port-message').dataset.kind === 'ok'")


def overrides(server: Server) -> Any:
    return server.get("policy")["current"]["policy"]["overrides"]


def test_the_menu_shows_thresholds_and_freezes_fixes_and_frees_the_port(
    page: Page, server: Server, engine: Engine, policy: Policy
) -> None:
    open_dashboard(page, server, f"#token={TOKEN}")
    until(page, "document.querySelectorAll('#topology .link').length > 0")
    open_menu(page, "s2:3")
    assert page.inner_text("#port-title") == "Port s2:3 to h7"
    assert page.locator("#port-thresholds dd").count() == 3
    assert page.inner_text("#port-source").startswith("Computed by this port at ")
    page.click("#port-freeze")
    applied(page, engine, 2)
    assert overrides(server) == [{"ports": ["s2:3"], "freeze": True}]
    until(page, "document.querySelector('#port-remove').textContent === 'Unfreeze'")
    assert page.locator("#port-freeze").is_hidden()
    page.fill("#port-levels", "10 KB, 20KB, 30 KB")
    page.keyboard.press("Enter")
    applied(page, engine, 3)
    assert overrides(server) == [{"ports": ["s2:3"], "thresholds": [10_000, 20_000, 30_000]}]
    until(page, "document.querySelector('#port-remove').textContent === 'Remove override'")
    page.click("#port-remove")
    applied(page, engine, 4)
    assert overrides(server) == []
    page.fill("#port-levels", "10KB")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#port-message').dataset.kind === 'error'")
    assert "3" in page.inner_text("#port-message")


def test_the_menu_opens_by_its_button_asks_for_the_token_and_closes_by_the_keyboard(
    page: Page, server: Server, engine: Engine, policy: Policy
) -> None:
    open_dashboard(page, server)
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
    assert overrides(server) == []
    page.fill("#port-token", TOKEN)
    page.keyboard.press("Enter")
    applied(page, engine, 2)
    assert overrides(server) == [{"ports": ["s2:3"], "freeze": True}]
    page.keyboard.press("Escape")
    page.wait_for_selector("#port-menu:not([open])", state="attached")
    assert page.evaluate("document.activeElement.id") == "port-open"


def test_the_drawing_marks_the_chosen_port_by_its_name_and_bad_links_by_signs(
    page: Page, server: Server, engine: Engine, network: Network, policy: Policy
) -> None:
    open_dashboard(page, server)
    until(page, "document.querySelectorAll('#topology .chosen-port').length === 1")
    assert page.locator("#topology .sign").count() == 0
    assert page.locator(".signs span:visible").count() == 0
    page.locator('#topology .link[data-port="s2:3"]').dispatch_event("click")
    until(page, "document.querySelector('#topology .chosen-port').textContent === 's2:3'")
    assert page.get_attribute('#topology .link[data-port="s2:3"]', "aria-pressed") == "true"
    changes: dict[str, Any] = {"s1:5": {"up": False}, "s3:2": {"rate_bps": 5_000_000, "delay_ns": 2_000_000}}
    ports = tuple(replace(port, **changes.get(port.id, {})) for port in network.topology.ports)
    put_topology(engine, replace(network.topology, ports=ports))
    page.reload()
    until(page, "document.querySelectorAll('#topology .sign').length === 2")
    assert page.get_attribute('#topology .link[data-port="s1:5"]', "data-link") == "down"
    named = page.get_attribute('#topology .link[data-port="s3:2"]', "aria-label") or ""
    assert "its rate is 5 Mb/s" in named
    assert "its delay is 2 ms" in named
    assert page.locator(".signs span:visible").all_inner_texts() == ["✕ Down", "◇ Impaired"]
    open_menu(page, "s1:5")
    assert page.inner_text("#port-link") == "Down: the link is down."


def test_events_are_filtered_and_the_address_keeps_the_filter(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    add_event(engine, "switch-connected", switch="s1", dpid=1)
    add_event(engine, "host-demoted", port="s1:2", host="h2", tag=1)
    add_event(engine, "host-demoted", port="s2:1", host="h5", tag=2)
    add_event(engine, "agent-expired", agent="h9")
    open_dashboard(page, server)
    rows = page.locator("#events li")
    until(page, "document.querySelectorAll('#events li[data-kind]').length === 4")
    page.select_option("#event-filter [name=severity]", "warning")
    assert rows.count() == 3
    page.select_option("#event-kind", "host-demoted")
    page.fill("#event-filter [name=where]", "s1")
    assert page.inner_text("#event-count") == "1 of 4"
    assert "h2" in rows.first.inner_text()
    assert "event-where=s1" in page.url
    add_event(engine, "host-demoted", port="s1:3", host="h3", tag=4)
    until(page, "document.querySelectorAll('#events li').length === 2")
    page.goto(page.url)
    until(page, "document.querySelectorAll('#events li[data-kind=host-demoted]').length === 2")
    assert page.input_value("#event-kind") == "host-demoted"
    page.fill("#event-filter [name=text]", "no such words")
    assert rows.all_inner_texts() == ["No event passes the filter."]
    page.click("#event-clear")
    until(page, "document.querySelectorAll('#events li[data-kind]').length === 5")
    assert "event-" not in page.url


def test_the_size_classes_are_explained_with_the_sizes_that_flows_have(
    page: Page, server: Server, policy: Policy
) -> None:
    open_dashboard(page, server)
    page.locator("#fct-title + .explain").focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('#classes-rows tr').length === 3")
    small = page.locator("#classes-rows tr").first.inner_text()
    assert "up to 100 KB" in small
    assert "none" not in small
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('#classes').matches(':popover-open')")
