# SPDX-License-Identifier: Apache-2.0
"""Alerts from a real web process, to a real receiver and a real browser."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from sqlalchemy import Engine, insert

from sluice.policy.alerts import Alert, Change, State
from sluice.policy.figures.validity import MachineStatus
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.wait import wait_until
from sluice.store.alerts import put_changes
from sluice.store.desired import put_policy
from sluice.store.engine import open_store
from sluice.store.observed import put_agent
from sluice.store.schema import flows
from tests.kit.heartbeats import port_heartbeat
from tests.kit.receiver import Receiver
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, TOKEN, Server
from tests.web.dashboard import choose, open_dashboard, until
from tests.web.synthetic import Network

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.web

RULES = """
alerts = [
  { name = "deadlines-missed", figure = "deadline-misses", limit = 0.05, for = "1s", least_flows = 20 },
  { name = "agent-down", figure = "agent-down", for = "1s" },
  { name = "figures-not-valid", figure = "not-valid", for = "1s" },
]
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def server(tmp_path: Path, receiver: Receiver) -> Iterator[Server]:
    """A server whose configuration has rules with short times, and the receiver."""
    config = tmp_path / "web.toml"
    token = tmp_path / "hook-token"
    token.write_text("hidden-token\n")
    config.write_text(f'webhook = "{receiver.url}"\nwebhook_token_file = "{token}"\n{RULES}')
    server = Server(tmp_path, None, "--config", str(config))
    server.start()
    yield server
    server.stop()


def add_flows(engine: Engine, count: int, prefix: str, **changes: Any) -> None:
    rows = [FlowRecord.from_document(record(f"{prefix}{i}", **changes)).to_document() for i in range(count)]
    with engine.begin() as connection:
        connection.execute(insert(flows), [{**row, "received_at": time.time()} for row in rows])


def miss_deadlines(engine: Engine) -> None:
    add_flows(engine, 40, "late", deadline_us=1_000.0, met=False)


def meet_deadlines(engine: Engine) -> None:
    add_flows(engine, 2000, "met", deadline_us=9_000.0, met=True)


def states(server: Server) -> dict[str, str]:
    return {f"{row['alert']}{row['subject']}": row["state"] for row in server.get("alerts")["alerts"]}


def test_webhook__killed_and_restarted_servers_report_each_change_once(
    server: Server, engine: Engine, receiver: Receiver
) -> None:
    miss_deadlines(engine)
    wait_until(lambda: receiver.got, "the alert is reported", timeout_s=PATIENCE_S)
    wait_until(lambda: server.get("alerts")["webhook"]["waiting"] == 0, "it is noted", timeout_s=PATIENCE_S)
    server.kill()
    server.start()
    receiver.always = "hang"  # the next message finds a receiver that does not answer
    meet_deadlines(engine)
    wait_until(lambda: len(receiver.got) == 2, "the receiver has the next message", timeout_s=PATIENCE_S)
    assert states(server)["deadlines-missed"] == State.RESOLVED
    server.kill()
    receiver.always = 204
    server.start()
    wait_until(lambda: len(receiver.got) == 3, "the unanswered message comes again", timeout_s=PATIENCE_S)
    assert [message["state"] for message in receiver.got] == ["firing", "resolved", "resolved"]
    assert receiver.got[1]["id"] == receiver.got[2]["id"]
    wait_until(lambda: server.get("alerts")["webhook"]["waiting"] == 0, "nothing waits", timeout_s=PATIENCE_S)
    log = (server.folder / "web.log").read_text()
    assert "secret" not in log
    assert "hidden-token" not in log


def test_page__an_alert_appears_with_reason_and_remedy_and_goes(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    open_dashboard(page, server)
    until(page, "document.querySelector('#alerts-summary').textContent === 'All ok'")
    assert page.locator("#alert-banners").is_hidden()
    assert page.locator("#alerts-mark").is_hidden()
    miss_deadlines(engine)
    page.wait_for_selector("#alert-banners:not([hidden])")
    banner = page.inner_text("#alert-banners")
    assert "deadlines-missed. The deadline was missed by 100 % of 40 flows" in banner
    assert "lower the load" in banner
    assert page.inner_text("#alerts-mark") == "1 firing"
    assert "deadlines-missed" in (page.text_content("#alert-news") or "")
    row = page.locator('#alerts li[data-alert="deadlines-missed/"]')
    assert "Firing since" in row.inner_text()
    until(page, "document.querySelector('#events').textContent.includes('Alert firing')")
    meet_deadlines(engine)
    page.wait_for_selector("#alert-banners", state="hidden")
    until(page, "document.querySelector('#alerts').textContent.includes('Resolved since')")


@contextmanager
def reporting(engine: Engine, machine: MachineStatus) -> Iterator[None]:
    """Play a port agent that reports on its machine."""
    end = threading.Event()

    def report() -> None:
        while not end.wait(0.5):
            put_agent(engine, "ports", port_heartbeat(machine=machine))

    put_agent(engine, "ports", port_heartbeat(machine=machine))
    thread = threading.Thread(target=report)
    thread.start()
    yield
    end.set()
    thread.join()


def test_page__says_that_its_figures_are_not_valid_and_why(
    page: Page, server: Server, engine: Engine, network: Network
) -> None:
    open_dashboard(page, server)
    until(page, "document.body.dataset.valid === 'null'")
    until(page, "document.querySelector('#alerts-notes').textContent.includes('sluice port-agent')")
    with reporting(engine, MachineStatus(10.0, 0.99, {"s1:2": 0.3}, {"queues of s1-eth1": 7}, 0.3)):
        page.wait_for_selector("#validity-banner:not([hidden])")
        text = page.inner_text("#validity-banner")
        assert (
            "What the page shows is not valid. The switch forwarded 30.0% of the packets in the last 10 s"
            in text
        )
        assert "served port s1:2 late, by 30% of its sending time" in text
        assert "7 packets were lost outside the emulated queues" in text
        assert "Lower the rates or the load" in text
        assert page.inner_text("#validity-mark") == "Not valid"
        wait_until(
            lambda: states(server)["figures-not-valid"] == State.FIRING, "its alert", timeout_s=PATIENCE_S
        )
        assert page.locator("#alert-banners").is_hidden(), "the reason is shown once"
    with reporting(engine, MachineStatus(10.0, 0.2)):
        until(page, "document.body.dataset.valid === 'true'")
        assert page.locator("#validity-banner").is_hidden()
        assert page.locator("#validity-mark").is_hidden()


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


def test_page__alerts_fit_each_width_and_work_with_the_keyboard(page: Page, shared_server: Server) -> None:
    engine = open_store(shared_server.store_url)
    Network(engine).heartbeats(1)
    long = "the agent has sent no heartbeat for a time, and-a-word-without-a-break" * 3
    down = [
        Alert("agent-down", f"h{i}", "firing", 1, 1e9, 1e9, None, 1, 9, None, long, long) for i in range(9)
    ]
    with reporting(engine, MachineStatus(10.0, 0.99, {"s1:2": 0.3}, {"queues of s1-eth1": 7}, 0.3)):
        open_dashboard(page, shared_server)
        page.wait_for_selector("#validity-banner:not([hidden])")
        put_changes(engine, [Change(alert, alert) for alert in down], [], 1.0)
        page.wait_for_selector("#alert-banners:not([hidden])")
        for width, theme in itertools.product((1440, 420), ("light", "dark")):
            page.emulate_media(color_scheme=cast(Any, theme))
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            for selector in (
                "#alert-banners",
                "#validity-banner",
                ".card.alerts",
                "#alerts-mark",
                "#validity-mark",
            ):
                box = page.locator(selector).bounding_box()
                assert box is not None, selector
                assert 0 <= box["x"] <= box["x"] + box["width"] <= width, selector
        page.focus("#alerts-mark")
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#alerts-title"
        page.focus("#alerts")
        assert page.evaluate("document.activeElement.id") == "alerts"
    engine.dispose()
