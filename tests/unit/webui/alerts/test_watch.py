# SPDX-License-Identifier: Apache-2.0
"""The watch and the courier on a real store and a real receiver. The test moves the clock and calls each turn."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import OperationalError

from sluice.policy.alert_rules import AlertRule, Figure
from sluice.policy.alerts import State
from sluice.store.alerts import all_alerts, next_message, put_rules, waiting_messages
from sluice.store.observed import newest_events, put_agent
from sluice.store.schema import agents, leases
from sluice.store.totals import Tally
from sluice.webui.alerts import courier, watch
from sluice.webui.alerts.courier import LONGEST_WAIT_S, MOST_ATTEMPTS, wait_s
from sluice.webui.alerts.settings import AlertSettings
from sluice.webui.alerts.watch import AlertWatch
from sluice.webui.alerts.webhook import Webhook
from sluice.webui.ingestion import Ingestion
from sluice.webui.recent import RecentFlows
from tests.kit.heartbeats import host_heartbeat
from tests.kit.receiver import Receiver

RULES = (AlertRule("down", Figure.AGENT, for_s=30.0),)


class World:
    """A store with one agent, and web workers that watch it."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> None:
        self.engine, self.age_s, self.receiver = engine, 1000.0, receiver
        self.webhook: Webhook | None = Webhook(receiver.url, "the-token", step_s=0.3)
        self.tally = Tally()
        monkeypatch.setattr("sluice.store.ages.age_s", lambda engine: self.age_s)
        put_agent(engine, "h1", host_heartbeat())
        self.report()
        self.stopping = threading.Event()

    def worker(self, me: str = "one") -> AlertWatch:
        ended = me != "other"
        settings = AlertSettings(RULES, self.webhook)
        made = AlertWatch(
            self.engine, RecentFlows(self.engine), Ingestion(self.engine), self.tally, self.stopping, settings
        )
        made.duty._me = me
        made.duty._ended = lambda holder: ended and holder != me
        return made

    def report(self) -> None:
        """The agent has sent a heartbeat."""
        with self.engine.begin() as connection:
            connection.execute(update(agents).values(seen_s=self.age_s))

    def turn(self, worker: AlertWatch, after_s: float) -> None:
        """Look after some seconds, and let the courier send what is due."""
        self.age_s += after_s
        worker.turn()
        if worker.courier is not None:
            while worker.courier.turn():
                pass

    def fire(self, worker: AlertWatch) -> None:
        for after_s in (10, 29, 1):
            self.turn(worker, after_s)

    @property
    def state(self) -> str:
        found = all_alerts(self.engine)
        return found["down", "h1"].state if found else State.OK

    @property
    def sent(self) -> list[str]:
        return [message["state"] for message in self.receiver.got]


@pytest.fixture
def world(engine: Engine, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> World:
    return World(engine, monkeypatch, receiver)


def test_watch__an_agent_that_is_down(world: World) -> None:
    worker = world.worker()
    world.turn(worker, 1)
    assert world.state == State.OK
    world.turn(worker, 10)
    assert world.state == State.PENDING
    assert world.sent == []
    world.turn(worker, 29)
    world.turn(worker, 1)
    assert world.state == State.FIRING
    (message,) = world.receiver.got
    assert (message["alert"], message["subject"], message["state"]) == ("down", "h1", "firing")
    assert "the agent h1 (host) has sent no heartbeat for 41 s" in message["reason"]
    assert message["remedy"]
    for _ in range(20):
        world.turn(worker, 2)
    world.report()
    world.turn(worker, 1)
    assert world.state == State.FIRING
    for _ in range(10):
        world.turn(worker, 3)
        world.report()
    assert world.state == State.RESOLVED
    assert world.sent == ["firing", "resolved"]
    assert [event["kind"] for event in newest_events(world.engine, 9)] == ["alert-firing", "alert-resolved"]
    assert waiting_messages(world.engine) == 0


def test_watch__a_restart_neither_loses_a_firing_alert_nor_sends_it_twice(world: World) -> None:
    world.fire(world.worker("one"))
    second = world.worker("two")  # the first process is dead, and gave nothing back
    for _ in range(30):
        world.turn(second, 2)
    assert world.state == State.FIRING
    assert world.sent == ["firing"]
    world.report()
    for _ in range(20):
        world.turn(second, 2)
        world.report()
    assert world.sent == ["firing", "resolved"]


def test_watch__a_message_that_a_dead_process_has_not_delivered_is_delivered_by_the_next(
    world: World,
) -> None:
    world.receiver.statuses = ["hang"]
    world.fire(world.worker("one"))
    assert waiting_messages(world.engine) == 1
    world.turn(world.worker("two"), courier.FIRST_WAIT_S)
    assert [message["id"] for message in world.receiver.got] == [world.receiver.got[0]["id"]] * 2
    assert waiting_messages(world.engine) == 0


def test_watch__only_one_of_several_workers_reports(world: World) -> None:
    one, other = world.worker("one"), world.worker("other")
    for after_s in (10, 29, 1, 5):
        world.turn(one, after_s)
        world.turn(other, 0)
    assert world.sent == ["firing"]
    one.duty.release()
    world.turn(other, 1)
    assert other.duty.engine is not None
    assert world.state == State.FIRING
    assert world.sent == ["firing"]


def test_watch__one_that_lost_the_lease_writes_nothing(world: World) -> None:
    worker = world.worker("other")
    world.turn(worker, 10)
    with world.engine.begin() as connection:
        connection.execute(update(leases).values(generation=leases.c.generation + 1, holder="another"))
    for _ in range(3):
        world.turn(worker, 30)
    assert world.state == State.PENDING
    assert world.sent == []
    assert worker.duty.engine is None


def test_watch__a_store_that_fails_changes_no_state(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = world.worker()
    world.fire(worker)

    def broken(_: Engine) -> None:
        raise OperationalError("SELECT", {}, Exception("no store"))

    with monkeypatch.context() as patched:
        patched.setattr(watch, "all_agents", broken)
        for _ in range(3):
            world.turn(worker, 60)
    assert world.state == State.FIRING
    assert len([line for line in caplog.records if "alerts are not judged" in line.message]) == 1
    world.turn(worker, 2)
    assert world.sent == ["firing"]


def test_watch__rules_of_the_api_take_effect_at_the_next_look(world: World) -> None:
    worker = world.worker()
    world.fire(worker)
    put_rules(world.engine, [replace(RULES[0], name="other")], "ann")
    world.turn(worker, 2)
    found = {alert.rule: alert.state for alert in all_alerts(world.engine).values()}
    assert found == {"down": State.RESOLVED, "other": State.PENDING}


def test_courier__waits_longer_after_each_failure_and_keeps_the_order(world: World) -> None:
    worker = world.worker()
    world.receiver.statuses = [500, 503, 500]
    world.fire(worker)
    world.report()
    for _ in range(11):  # resolved in the meantime, and still undelivered
        worker.turn()
        world.age_s += 3
        world.report()
    assert world.state == State.RESOLVED
    assert waiting_messages(world.engine) == 2
    message = next_message(world.engine)
    assert message is not None
    assert message.problem == f"127.0.0.1:{world.receiver.port} answers 500"
    for after_s, sent in ((0, 2), (3.9, 2), (0.1, 3), (7.9, 3), (0.1, 5)):
        world.turn(worker, after_s)
        assert len(world.sent) == sent
    assert world.sent == ["firing"] * 4 + ["resolved"]
    assert [wait_s(attempts) for attempts in (1, 2, 3)] == [2, 4, 8]
    assert wait_s(MOST_ATTEMPTS) == LONGEST_WAIT_S


def test_courier__a_message_that_is_refused_is_dropped(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.receiver.statuses = [400]
    with caplog.at_level(logging.DEBUG):
        world.fire(world.worker())
    assert waiting_messages(world.engine) == 0
    assert newest_events(world.engine, 1)[0]["kind"] == "webhook-dropped"
    assert "the message is dropped" in caplog.text
    assert "secret" not in caplog.text
    assert "the-token" not in caplog.text


def test_courier__a_receiver_that_hangs_delays_neither_the_watch_nor_deliveries(world: World) -> None:
    """While the courier waits, no lock of the deliveries is held."""
    worker = world.worker()
    world.webhook = None
    assert worker.courier is not None
    worker.courier._webhook = Webhook(world.receiver.url, step_s=30.0, whole_s=30.0)
    world.receiver.always = "hang"
    for after_s in (10, 29, 1):
        world.age_s += after_s
        worker.turn()
    sending = threading.Thread(target=worker.courier.turn, daemon=True)
    sending.start()
    while not world.receiver.got:
        time.sleep(0.01)
    with worker._ingestion.alone():
        pass
    world.report()
    for _ in range(20):
        world.age_s += 2
        worker.turn()
        world.report()
    assert world.state == State.RESOLVED
    assert sending.is_alive()


def test_watch__without_a_webhook_nothing_waits(world: World) -> None:
    world.receiver.statuses = [500] * 9
    world.fire(world.worker("one"))
    assert waiting_messages(world.engine) == 1
    world.webhook = None
    world.turn(world.worker("two"), 2)
    assert waiting_messages(world.engine) == 0
