# SPDX-License-Identifier: Apache-2.0
"""The page and the live stream: hidden tabs, failing answers, what leaves, what is not valid, in a real browser.

All tests share one page of a network that stands still unless they write rows. The last ones end its server.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from sluice.policy.figures.validity import MachineStatus
from sluice.policy.schema.desired import Policy
from sluice.store.desired import current_version, mark_applied, put_policy
from sluice.store.observed import add_event, lift_sanctions, put_agent, put_sanction
from tests.kit.heartbeats import port_heartbeat
from tests.web.conftest import Page, Request, Route, Server, eventually
from tests.web.dashboard import LIVE, figure, open_dashboard, show, until
from tests.web.synthetic import Network, demotion

pytestmark = pytest.mark.web

NEXT_SNAPSHOT = "(at) => sluice.model.snapshot.at > at + 1"


@pytest.fixture(scope="module")
def asked(shared_page: Page, shared_server: Server) -> list[Request]:
    """Open the page of a server that cannot load the scoreboard. Return what the page has asked for."""
    asked: list[Request] = []
    shared_page.on("request", lambda request: asked.append(request))
    shared_page.route(
        "**/api/v1/scoreboard*",
        lambda route: route.fulfill(status=500, json={"error": {"problem": "broken"}}),
    )
    open_dashboard(shared_page, shared_server)
    return list(asked)


@pytest.fixture
def page(asked: list[Request], shared_page: Page) -> Page:
    """The page of all tests."""
    return shared_page


def next_snapshots(page: Page) -> None:
    """Wait for two snapshots."""
    until(page, NEXT_SNAPSHOT, page.evaluate("sluice.model.snapshot.at"))


def pumped(page: Page, condition: Callable[[], bool], what: str) -> None:
    """Wait for what the page's requests bring about. They are handled only while Playwright is called."""
    eventually(lambda: page.evaluate("true") and condition(), what)


def test_before_anything_has_happened_the_page_says_so(page: Page) -> None:
    assert "No network yet" in page.inner_text("#topology")
    assert "No flows have finished yet" in page.inner_text("#fct-chart .empty")
    assert "No events yet" in page.inner_text("#events")
    assert figure(page, "small-mean") == "–"
    assert figure(page, "policy") == "None yet"


def test_what_could_not_be_loaded_is_named_until_it_is(page: Page) -> None:
    until(page, "document.getElementById('trouble').textContent === 'Not loaded: scoreboard'")
    next_snapshots(page)
    assert page.get_attribute("#trouble", "title") == "scoreboard: broken"
    page.unroute("**/api/v1/scoreboard*")
    until(page, "document.getElementById('trouble').hidden")


def test_the_page_names_all_its_modules_so_that_they_come_at_once(page: Page, asked: list[Request]) -> None:
    loaded = [request.url for request in asked if request.url.endswith(".js")]
    named = page.evaluate(
        "[...document.querySelectorAll('link[rel=modulepreload], script[src]')].map((e) => e.href || e.src)"
    )
    assert sorted(loaded) == sorted(set(named)), "each once"


def test_a_hidden_tab_leaves_its_connection_to_others(page: Page) -> None:
    """A browser opens six connections to a server at most, for all its tabs together."""
    page.evaluate(
        """() => {
            window.others = [1, 2, 3, 4, 5].map(() => new EventSource('/api/v1/events'));
        }"""
    )
    until(page, "others.every((stream) => stream.readyState === EventSource.OPEN)")
    page.evaluate("() => { fetch('/api/v1/health').then(({status}) => { window.answered = status; }); }")
    show(page, shown=False)
    until(page, "window.answered === 200")
    page.evaluate("others.forEach((stream) => stream.close())")
    show(page, shown=True)
    next_snapshots(page)


def test_a_tab_that_is_shown_again_has_what_happened_meanwhile(page: Page, shared_engine: Engine) -> None:
    add_event(shared_engine, "leading", number=1)
    until(page, "sluice.model.events.length === 1")
    show(page, shown=False)
    until(page, "document.body.dataset.live === 'connecting'")
    missed = 70
    for number in range(missed):
        add_event(shared_engine, "leading", number=number + 2)
    resumed: list[str] = []
    page.on("request", lambda request: resumed.append(request.url))
    show(page, shown=True)
    page.wait_for_selector(LIVE)
    until(page, f"sluice.model.events.length === {missed + 1}")
    assert any("events?last_event_id=" in url for url in resumed)
    until(page, "document.querySelectorAll('#events li').length === 71")
    pumped(page, lambda: any("/fct" in url for url in resumed), "the history is fetched")


def test_a_tab_that_is_opened_in_the_background_fetches_the_history_when_it_is_shown(
    page: Page, shared_server: Server
) -> None:
    tab = page.context.new_page()
    tab.add_init_script("Object.defineProperty(document, 'hidden', {configurable: true, value: true})")
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(shared_server.url)
    pumped(tab, lambda: any("/fct" in url for url in asked), "the page loads its history")
    assert not any("/api/v1/events" in url for url in asked), asked
    asked.clear()
    show(tab, shown=True)
    tab.wait_for_selector(LIVE)
    pumped(tab, lambda: any("/fct" in url for url in asked), "the page fetches the history again")
    tab.close()


def test_a_slow_server_is_not_asked_again_while_an_answer_is_outstanding(
    page: Page, shared_engine: Engine
) -> None:
    assert page.evaluate("sluice.model.policies.length") == 0
    asked: list[Route] = []
    page.route("**/api/v1/policy?*", lambda route: asked.append(route))
    mark_applied(
        shared_engine, put_policy(shared_engine, Policy.from_document({"scheme": "mlfq-adaptive"}), "test")
    )
    pumped(page, lambda: bool(asked), "the page asks for the policy")
    next_snapshots(page)
    next_snapshots(page)
    assert len(asked) == 1
    page.unroute("**/api/v1/policy?*")  # lets the request go on
    until(page, "sluice.model.policies.length === 1")


def test_what_has_not_changed_stays_when_a_snapshot_comes(
    page: Page, shared_engine: Engine, shared_network: Network
) -> None:
    """The same elements stay: those that are hovered or selected, and those that hold the focus."""
    shared_network.heartbeats(1)
    until(page, "document.querySelectorAll('#components .pill').length >= 23")
    shown = page.locator("#events li").count()
    page.evaluate("""() => {
        window.kept = [...document.querySelectorAll('#components .pill, #events li')];
        getSelection().selectAllChildren(document.querySelector('#events .detail'));
    }""")
    selected = page.evaluate("String(getSelection())")
    assert selected
    add_event(shared_engine, "leading", number=100)
    until(page, "(shown) => document.querySelectorAll('#events li').length > shown", shown)
    shared_network.heartbeats(2)
    next_snapshots(page)
    assert page.evaluate("kept.every((element) => element.isConnected)")
    assert page.evaluate("String(getSelection())") == selected


def test_a_demoted_host_is_named_above_everything_and_gone_when_it_is_restored(
    page: Page, shared_engine: Engine, shared_network: Network
) -> None:
    shared_network.heartbeats(1)
    until(page, "document.querySelectorAll('#topology .host').length === 16")
    assert page.is_hidden("#sanctions")
    demoted = demotion()
    put_sanction(shared_engine, demoted)
    until(page, "!document.getElementById('sanctions').hidden")
    said = page.inner_text("#sanctions")
    for part in (
        "h2 is demoted",
        "s1:2",
        "tag 1",
        demoted.flow,
        "1.2 MB",
        "475 KB",
        "950 ms",
        "10 s",
        "offence 2",
    ):
        assert part in said
    assert page.locator("#topology .host.demoted").count() == 1
    lift_sanctions(shared_engine, ["s1:2"])
    until(page, "document.getElementById('sanctions').hidden")
    assert page.locator("#topology .host.demoted").count() == 0


def test_switches_and_agents_that_leave_are_shown(page: Page, shared_network: Network) -> None:
    def all_up() -> bool:
        shared_network.heartbeats(1)
        up = page.locator("#components .pill[data-state=up]")
        return up.count() >= 23

    eventually(all_up, "switches and agents are shown as up", interval_s=0.5)
    # No component reports any more: after some seconds all count as away.
    until(page, "document.querySelectorAll('#components .pill[data-state=up]').length === 0")
    until(page, "document.querySelectorAll('#topology .host[data-state=down]').length === 16")
    assert page.inner_text("#components-summary") == "Degraded"


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


def test_figures_that_are_not_valid_have_a_banner_that_says_why_and_fits(
    page: Page, shared_engine: Engine
) -> None:
    until(page, "document.body.dataset.valid === 'null'")
    lost = {f"queues of s1-eth{i}": 7 for i in range(1, 9)}
    with reporting(shared_engine, MachineStatus(10.0, 0.99, {"s1:2": 0.3}, lost, 0.3)):
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
        assert "not valid" in (page.text_content("#validity-news") or "")
        for width in (420, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            for selector in ("#validity-banner", "#validity-mark"):
                box = page.locator(selector).bounding_box()
                assert box is not None, selector
                assert 0 <= box["x"] <= box["x"] + box["width"] <= width, selector
        page.focus("#validity-mark")
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#validity-banner"
    with reporting(shared_engine, MachineStatus(10.0, 0.2)):
        until(page, "document.body.dataset.valid === 'true'")
        assert page.locator("#validity-banner").is_hidden()
        assert page.locator("#validity-mark").is_hidden()


def test_a_killed_server_shows_as_stale_and_the_page_recovers(
    page: Page, shared_server: Server, shared_engine: Engine, shared_network: Network
) -> None:
    policy, version = Policy.from_document({"scheme": "mlfq-adaptive"}), current_version(shared_engine)
    shared_network.second(time.time(), policy, version)
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    shared_server.kill()
    page.wait_for_selector('body[data-live="stale"]')
    assert "Stale since" in page.inner_text("#live")
    missed_at = time.time()
    shared_network.second(missed_at, policy, version)
    shared_server.start()
    page.wait_for_selector(LIVE)
    assert page.inner_text("#live") == "Live"
    until(page, "(t) => sluice.model.snapshot.at > t", missed_at)
    # The chart also has what happened while the server was away.
    until(
        page,
        "(t) => [...sluice.model.fct].some(([at, b]) => at <= t && t < at + 2 && b.small.n > 0)",
        missed_at - 0.5,
    )
