# SPDX-License-Identifier: Apache-2.0
"""What changes the policy, in a real browser: the card with its form, and the menu of a port.

All tests share one page of a network whose controller they play. Each leaves every version applied.
"""

import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.store.access import create_token
from sluice.store.desired import current_policy, current_version, mark_applied, put_policy, put_topology
from tests.kit.known import known
from tests.web.conftest import TOKEN, Page, Server, eventually
from tests.web.dashboard import attribute, choose, open_dashboard, show, until
from tests.web.synthetic import Network

pytestmark = pytest.mark.web

MARKS = ("mark_at", "mark_min", "mark_max")
ADAPTIVE = {"scheme": "mlfq-adaptive", "queues": 4, "mark_at": "12pkt", "buffer": "60KB"}


@pytest.fixture(scope="module")
def page(shared_page: Page, shared_server: Server, shared_network: Network) -> Page:
    """Open the page with the token in its address, and the parameters of the scheme."""
    open_dashboard(shared_page, shared_server, f"#token={TOKEN}")
    shared_page.click("#control summary")
    return shared_page


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
