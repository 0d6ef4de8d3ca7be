# SPDX-License-Identifier: Apache-2.0
"""Desired state from the store, and rows and reports into it."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from sluice.controller.leadership import NAME
from sluice.controller.network import Kind
from sluice.controller.openflow.counters import QueueCounts
from sluice.controller.policing.hosts import Restored, UrgencyBudgeted
from sluice.controller.recorder import Recorder
from sluice.controller.reporting import REPEAT_S, Reporter
from sluice.controller.state import Desired, SwitchState
from sluice.policy.network.description import DeclaredPort
from sluice.policy.network.graph import Topology
from sluice.policy.policing.limits import Demoted
from sluice.policy.policing.urgency import UrgencyReport
from sluice.policy.schema.desired import Policy
from sluice.runtime.wait import wait_until
from sluice.store import desired, lease, observed
from sluice.store.engine import open_store
from sluice.store.observed import all_sanctions
from sluice.store.schema import leases
from tests.kit.heartbeats import host_heartbeat, port_heartbeat
from tests.kit.networks import single
from tests.unit.controller.driven import policy


def take_lease(engine: Engine, holder: str = "this one") -> int:
    """Take the lease, whoever holds it. Returns its generation."""
    mine = lease.take(engine, NAME, holder, lease.look(engine, NAME))
    assert mine is not None
    return mine.generation


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_store(url)
    yield engine
    engine.dispose()


@pytest.fixture
def delivered() -> list[Desired]:
    return []


@pytest.fixture
def recorder(url: str, engine: Engine, delivered: list[Desired]) -> Iterator[Recorder]:
    with leading(Recorder(url, delivered.append), engine) as recorder:
        yield recorder


@contextmanager
def leading(recorder: Recorder, engine: Engine) -> Iterator[Recorder]:
    """Let the recorder lead and run."""
    recorder.lead(take_lease(engine))
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop(5)


def add_event(engine: Engine, kind: str) -> None:
    observed.add_event(engine, kind)


def kinds(engine: Engine) -> list[str]:
    return [event["kind"] for event in observed.events_after(engine, 0)]


def put(engine: Engine, **document: Any) -> int:
    return desired.put_policy(engine, Policy.from_document({"scheme": "pias", **document}), "test")


def put_first(engine: Engine, delivered: list[Desired]) -> None:
    """Store a network and a policy, and wait until they are delivered."""
    desired.put_topology(engine, single())
    put(engine)
    wait_until(lambda: delivered, "the policy arrives")


def test_delivers_the_newest_policy_with_the_topology_and_each_change_once(
    recorder: Recorder, delivered: list[Desired], engine: Engine
) -> None:
    put_first(engine, delivered)
    put(engine, queues=2, thresholds=["1KB"])
    newest = put(engine, queues=2, thresholds=["10KB"])
    wait_until(lambda: delivered[-1].version == newest, "the change arrives")
    assert delivered[-1].policy.thresholds == (10_000,)
    assert delivered[-1].topology == single()
    versions = [d.version for d in delivered]
    assert versions == sorted(set(versions))
    desired.put_topology(engine, single(2))
    wait_until(lambda: delivered[-1].topology == single(2), "a new topology arrives, too")


def test_thresholds_learned_under_this_version_alone_are_delivered(
    engine: Engine, url: str, delivered: list[Desired]
) -> None:
    desired.put_topology(engine, single())
    put(engine)
    version = put(engine)
    rows = [(f"s1:{i}", v, (1000 * i,)) for i, v in ((1, version), (2, version - 1), (3, version))]
    observed.add_thresholds(engine, [observed.ThresholdChange(1.0, p, v, t, 0) for p, v, t in rows])
    with leading(Recorder(url, delivered.append), engine):
        wait_until(lambda: delivered, "the policy arrives")
    assert delivered[0].learned == {"s1:1": (1000,), "s1:3": (3000,)}


@pytest.mark.parametrize(("scheme", "kept"), [("mlfq-adaptive", True), ("sluice", False)])
def test_thresholds_of_a_frozen_port_are_delivered_from_an_earlier_version_of_the_same_scheme(
    engine: Engine, url: str, delivered: list[Desired], scheme: str, kept: bool
) -> None:
    desired.put_topology(engine, single())
    queues = 4
    before = put(engine, scheme=scheme, queues=queues)
    frozen = [{"ports": ["s1:1"], "freeze": True}]
    put(engine, scheme="mlfq-adaptive", queues=queues, overrides=frozen)
    rows = [observed.ThresholdChange(1.0, f"s1:{i}", before, (1000,) * 3, 0) for i in (1, 2)]
    observed.add_thresholds(engine, rows)
    with leading(Recorder(url, delivered.append), engine):
        wait_until(lambda: delivered, "the policy arrives")
    assert delivered[0].learned == ({"s1:1": (1000,) * 3} if kept else {})


def test_a_controller_that_follows_delivers_nothing_and_writes_nothing(
    recorder: Recorder, delivered: list[Desired], engine: Engine
) -> None:
    put_first(engine, delivered)
    recorder.follow()
    recorder.record(add_event, "late")
    newest = put(engine)
    recorder.lead(take_lease(engine))
    wait_until(lambda: len(delivered) == 2, "the newest desired state is delivered")
    recorder.record(add_event, "own")
    wait_until(lambda: kinds(engine), "rows are written again")
    assert delivered[-1].version == newest
    assert kinds(engine) == ["own"]


def test_rows_of_one_kind_that_wait_together_are_written_together_and_in_order(
    engine: Engine, url: str
) -> None:
    written: list[tuple[str, list[int]]] = []

    def rows(_engine: Engine, some: list[int]) -> None:
        written.append(("rows", list(some)))

    recorder = Recorder(url, lambda _: None)
    recorder.lead(take_lease(engine))
    for i in range(5):
        recorder.record_rows(rows, [i])
    recorder.record(add_event, "between")
    recorder.record_rows(rows, [5, 6])
    recorder.record_rows(lambda _, some: written.append(("others", some)), [7])
    recorder.start()
    recorder.stop(5)
    assert written == [("rows", [0, 1, 2, 3, 4]), ("rows", [5, 6]), ("others", [7])]


def test_an_invalid_policy_is_logged_and_the_one_before_it_stays(
    recorder: Recorder, delivered: list[Desired], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    put_first(engine, delivered)
    with engine.begin() as connection:
        connection.execute(
            text(
                "insert into policies (document, author, created_at) values ('{\"scheme\": \"new\"}', 'x', 0)"
            )
        )
    wait_until(lambda: "not valid" in caplog.text, "the recorder logs the policy")
    assert len(delivered) == 1
    newest = put(engine)
    wait_until(lambda: delivered[-1].version == newest, "a good one follows")


def test_rows_wait_out_an_outage_in_order_and_it_is_logged_once(
    recorder: Recorder, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    away, written = [True], list[int]()

    def write(_engine: Engine, number: int) -> None:
        if away:
            raise OperationalError("insert", {}, Exception("database is locked"))
        written.append(number)

    for number in range(50):
        recorder.record(write, number)
    wait_until(lambda: "locked" in caplog.text, "the outage is logged")
    away.clear()
    wait_until(lambda: len(written) == 50, "the rows are written")
    assert written == list(range(50))
    assert caplog.text.count("locked") == 1
    wait_until(lambda: "the store is back" in caplog.text, "the recorder logs the end of the outage")


def test_a_row_that_the_store_will_never_take_does_not_hold_up_the_others(
    recorder: Recorder, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def poison(_engine: Engine) -> None:
        raise IntegrityError("insert", {}, Exception("constraint"))

    recorder.record(poison)
    recorder.record(add_event, "after")
    wait_until(lambda: kinds(engine), "the next row is written")
    assert "never take" in caplog.text


def test_it_starts_without_a_store_and_uses_one_that_appears(tmp_path: Path) -> None:
    delivered: list[Desired] = []
    folder = tmp_path / "later"
    recorder = Recorder(f"sqlite:///{folder}/store.db", delivered.append)
    recorder.lead(5)
    recorder.start()
    recorder.record(add_event, "early")
    folder.mkdir()
    engine = open_store(f"sqlite:///{folder}/store.db")
    with engine.begin() as connection:
        connection.execute(leases.insert().values(name=NAME, holder="a", generation=5, beat=0, beat_at=0.0))
    wait_until(lambda: kinds(engine), "the row is written")
    recorder.stop(5)
    engine.dispose()


def test_delivers_a_network_that_a_testbed_stores_after_it_has_found_none(engine: Engine, url: str) -> None:
    """A container's controller starts before its demonstration, and must not discover the demonstration's network."""
    networks: list[Topology | None] = []
    with leading(Recorder(url, lambda _: None, lambda _, topology: networks.append(topology)), engine):
        wait_until(lambda: networks == [None], "the controller knows that there is no network")
        desired.put_topology(engine, single())
        wait_until(lambda: networks == [None, single()], "it knows the testbed's")


def test_what_is_discovered_replaces_what_was_discovered_and_nothing_that_a_testbed_made(
    recorder: Recorder, engine: Engine
) -> None:
    first, second = (
        replace(single(hosts), kind=Kind.DISCOVERED, learns=True, parameters={}) for hosts in (2, 3)
    )
    for network in (first, second):
        recorder.put_topology(network)
        wait_until(lambda: desired.current_topology(engine) == network, "it is stored")  # noqa: B023 - called at once
    desired.put_topology(engine, single())
    recorder.put_topology(first)
    recorder.record(add_event, "written-after-it")
    wait_until(lambda: kinds(engine), "all before it is written")
    assert desired.current_topology(engine) == single()


def test_delivers_the_names_of_agents_when_they_change(engine: Engine, url: str) -> None:
    named: list[Mapping[str, str]] = []
    with leading(Recorder(url, lambda desired: None, on_agents=named.append), engine):
        observed.put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
        wait_until(lambda: named, "they are delivered")
        assert named == [{"52:54:00:00:00:11": "web1"}]


def test_a_policy_that_is_chosen_as_the_network_appears_stays(
    url: str, engine: Engine, delivered: list[Desired], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network without a policy gets one that only watches. Here a user chooses one between look and change."""
    look = desired.current_version

    def overtaken(engine: Engine) -> int:
        version = look(engine)
        if version == 0:
            desired.put_policy(engine, policy("pias"), "a user")
        return version

    monkeypatch.setattr(desired, "current_version", overtaken)
    desired.put_topology(engine, replace(single(), learns=True))
    with leading(Recorder(url, delivered.append), engine):
        wait_until(lambda: delivered, "the policy is delivered")
    assert [version.author for version in desired.policy_history(engine)] == ["a user"]


def test_delivers_the_vlans_that_port_agents_report(engine: Engine, url: str) -> None:
    columns = {"s1:eth1": DeclaredPort("eth1", trunks=(10, 20))}
    desired.put_topology(engine, replace(single(), learns=True))
    observed.put_agent(engine, "ports", port_heartbeat(columns=columns))
    told: list[Mapping[str, DeclaredPort]] = []
    with leading(Recorder(url, lambda desired: None, on_columns=told.append), engine):
        wait_until(lambda: told, "they are delivered")
    assert told[0] == columns


@pytest.mark.parametrize(("scheme", "reads"), [("aemon", True), ("pias", False)])
def test_delivers_the_reports_about_urgency_if_hosts_write_it(
    engine: Engine, url: str, delivered: list[Desired], scheme: str, reads: bool
) -> None:
    reports: list[Mapping[str, UrgencyReport]] = []
    desired.put_topology(engine, single())
    desired.put_policy(engine, Policy.from_document({"scheme": scheme}), "test")
    observed.put_agent(engine, "h1", host_heartbeat(pid=3, urgent_bytes=5))
    with leading(Recorder(url, delivered.append, on_urgency=reports.append), engine):
        wait_until(lambda: delivered, "the policy is delivered")
        if reads:
            wait_until(lambda: len(reports) > 1, "the reports are delivered again and again")
    assert all(each == {"h1": UrgencyReport(5, 3, None)} for each in reports)
    assert bool(reports) is reads


def test_rows_that_waited_while_another_controller_took_the_lease_are_never_written(
    recorder: Recorder, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    away = [True]

    def late(store: Engine) -> None:
        if away:
            raise OperationalError("insert", {}, Exception("database is locked"))
        observed.add_event(store, "late")

    recorder.record(late)
    wait_until(lambda: "locked" in caplog.text, "the row waits")
    taken = take_lease(engine, "another one")
    away.clear()
    wait_until(lambda: f"has the generation {taken}" in caplog.text, "the store has refused the row")
    recorder.follow()
    recorder.lead(take_lease(engine))
    recorder.record(add_event, "own")
    wait_until(lambda: kinds(engine), "the next term's rows are written")
    assert kinds(engine) == ["own"]


def test_rows_wait_while_a_controller_takes_its_own_lease_again(
    recorder: Recorder, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    again = take_lease(engine)
    recorder.record(add_event, "early")
    wait_until(lambda: f"has the generation {again}" in caplog.text, "the row waits")
    recorder.lead(again)
    wait_until(lambda: kinds(engine), "it is written")


def test_what_is_delivered_names_the_generation_under_which_it_was_read(
    recorder: Recorder, delivered: list[Desired], engine: Engine
) -> None:
    put_first(engine, delivered)
    again = take_lease(engine)
    recorder.lead(again)
    wait_until(lambda: delivered[-1].generation == again, "it is read again")
    assert [d.generation for d in delivered] == [again - 1, again]


Write = Callable[[Callable[[Reporter], None]], None]
DEMOTED = Demoted("s1:2", "h2", "TCP a > b", 1, 5_000, 1_000, 1.75, 1, 5.0)


@pytest.fixture
def write(url: str, engine: Engine) -> Write:
    """Make reports, and wait until the store has their rows."""

    def reports(make: Callable[[Reporter], None]) -> None:
        recorder = Recorder(url, lambda _: None)
        recorder.lead(take_lease(engine))
        make(Reporter(recorder))
        recorder.start()
        recorder.stop(10)

    return reports


def events(engine: Engine, kind: str) -> list[Any]:
    return [event["document"] for event in observed.events_of(engine, kind, 0)]


def test_duplicate__the_same_two_switches_are_reported_once_a_minute(write: Write, engine: Engine) -> None:
    first, second, third = (f"10.0.0.{i}:4{i}" for i in (1, 2, 3))

    def make(reporter: Reporter) -> None:
        for now_s in (0.0, 1.0, REPEAT_S - 1, REPEAT_S):
            reporter.duplicate(7, first, second, now_s)
        reporter.duplicate(7, first, third, 2.0)
        reporter.duplicate(8, first, second, 2.0)

    write(make)
    found = [(d["dpid"], d["refused"]) for d in events(engine, "duplicate-datapath-id")]
    assert sorted(found) == sorted([(7, second)] * 2 + [(7, third), (8, second)])


def test_idle_overrides__names_those_without_a_port(write: Write, engine: Engine) -> None:
    overrides = [{"ports": ["s1:*"], "freeze": True}, {"ports": ["s9:1"], "freeze": True}]
    desired = Desired(single(), 4, policy(overrides=overrides))
    write(lambda reporter: reporter.idle_overrides(desired))
    assert events(engine, "idle-override") == [{"version": 4, "ports": ["s9:1"]}]


def test_verdict__a_demoted_host_has_a_row_until_it_is_restored(write: Write, engine: Engine) -> None:
    write(lambda reporter: reporter.verdict("s1", DEMOTED))
    (sanction,) = all_sanctions(engine)
    assert (sanction.port, sanction.host, sanction.offences) == ("s1:2", "h2", 1)
    assert events(engine, "host-demoted") == [vars(DEMOTED)]
    restored = Restored("s1:2", "h2", "behaved for 5 s")
    write(lambda reporter: reporter.verdict("s1", restored))
    assert all_sanctions(engine) == []
    assert events(engine, "host-restored") == [vars(restored)]


def test_queues__leaves_out_ports_that_the_topology_does_not_have(write: Write, engine: Engine) -> None:
    state = SwitchState("s1", Desired(single(), 1, policy()))
    counts = {1: QueueCounts((10, 20), (1, 2)), 99: QueueCounts((5,), (1,))}
    write(lambda reporter: reporter.queues(state, counts))
    assert [sample.port for sample in observed.newest_port_samples(engine)] == ["s1:1"]


def test_verdict__a_spent_budget_of_urgency_is_an_event_and_no_sanction(write: Write, engine: Engine) -> None:
    spent, regained = (UrgencyBudgeted("s1:2", "h2", is_spent=is_spent) for is_spent in (True, False))
    write(lambda reporter: reporter.verdict("s1", spent))
    write(lambda reporter: reporter.verdict("s1", regained))
    port = {"port": "s1:2", "host": "h2"}
    assert (events(engine, "urgency-spent"), events(engine, "urgency-regained")) == ([port], [port])
    assert all_sanctions(engine) == []
