# SPDX-License-Identifier: Apache-2.0

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text

from sluice.policy.schema.desired import Policy
from sluice.runtime.wait import wait_until
from sluice.store.desired import put_policy
from sluice.store.observed import add_event, newest_events
from sluice.webui import services
from sluice.webui.figures import RecentFlows
from sluice.webui.live import snapshot
from sluice.webui.services import GREETING_EVENTS, Live, SharedAnswer
from tests.kit.known import known
from tests.unit.webui.conftest import Client


def messages(raw: bytes) -> list[tuple[str, str | None, Any]]:
    """Return (event name, id or None, document) of each message, without comments and retry lines."""
    found = []
    for block in raw.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "data" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def live_of(engine: Engine, stopping: threading.Event) -> Live:
    return Live(engine, partial(snapshot, engine, RecentFlows(engine)), stopping)


@pytest.fixture
def stopping() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_events__start_with_the_past_ones_and_resume_after_the_last_seen(
    client: Client, engine: Engine
) -> None:
    for number in range(GREETING_EVENTS + 5):
        add_event(engine, "tick", number=number)
    past = messages(client.get("/api/v1/events?count=1").data)
    ids = [int(known(number)) for name, number, _ in past if name == "event"]
    assert ids == list(range(6, GREETING_EVENTS + 6))
    resumed = client.get("/api/v1/events?count=1", headers={"Last-Event-ID": str(GREETING_EVENTS + 3)})
    assert [i for name, i, _ in messages(resumed.data) if name == "event"] == [
        str(GREETING_EVENTS + 4),
        str(GREETING_EVENTS + 5),
    ]


@pytest.mark.parametrize("header", ["-1", "9" * 400, "²"])
def test_events__a_strange_last_event_id_counts_as_absent(
    client: Client, engine: Engine, header: str
) -> None:
    add_event(engine, "tick")
    answer = client.get(
        "/api/v1/events?count=1", headers={"Last-Event-ID": header.encode("utf-8").decode("latin-1")}
    )
    assert [name for name, _, _ in messages(answer.data)] == ["event", "snapshot"]


def test_live__an_event_reaches_a_client_once(
    engine: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "INTERVAL_S", 0.05)
    stream = live_of(engine, stopping).stream(count=6)
    seen = []
    for number, chunk in enumerate(stream):
        seen += messages(chunk)
        if number == 2:
            add_event(engine, "tick")
            put_policy(engine, Policy.from_document({"scheme": "tcp"}), "test")
    assert [name for name, _, _ in seen].count("event") == 1
    assert seen[-1][2]["policy"]["policy"]["scheme"] == "tcp"


def test_live__a_client_after_an_idle_time_gets_no_old_picture(
    engine: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "INTERVAL_S", 0.05)
    monkeypatch.setattr(services, "_LINGER_S", 0.0)
    live = live_of(engine, stopping)
    for scheme in ("tcp", "pias"):
        put_policy(engine, Policy.from_document({"scheme": scheme}), "test")
        stream = live.stream(count=1)
        [shown] = [
            document for chunk in stream for name, _, document in messages(chunk) if name == "snapshot"
        ]
        assert shown["policy"]["policy"]["scheme"] == scheme
        stream.close()
        wait_until(lambda: live._thread is None, "the picture is idle")


def test_live__many_clients_cost_one_look_a_second(
    engine: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    live = live_of(engine, stopping)
    look = live._look

    def counted() -> Any:
        looks.append(1)
        return look()

    monkeypatch.setattr(live, "_look", counted)
    threads = [threading.Thread(target=lambda: list(live.stream(count=3))) for _ in range(25)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looks) <= time.monotonic() - began + 3


def test_live__clients_that_come_together_share_one_look_at_past_events(
    engine: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(*arguments: Any) -> Any:
        asked.append(1)
        return newest_events(*arguments)

    add_event(engine, "tick")
    live = live_of(engine, stopping)
    first = live.stream()
    next(iter(chunk for chunk in first if b"snapshot" in chunk))  # the first tick, which looks, too
    monkeypatch.setattr(services, "newest_events", counted)
    greetings = {live.stream().greeting for _ in range(20)}
    assert len(greetings) == 1
    assert b"event: event" in greetings.pop()
    assert len(asked) <= 2  # a tick may fall between


def test_live__a_store_that_fails_is_told_and_survived(
    engine: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "INTERVAL_S", 0.05)
    stream = live_of(engine, stopping).stream()
    names = []
    for chunk in stream:
        names += [name for name, _, _ in messages(chunk)]
        if names == ["snapshot"]:
            with engine.begin() as connection:
                connection.execute(text("ALTER TABLE switches RENAME TO gone"))
        if "trouble" in names and names[-1] == "trouble" and names.count("trouble") == 1:
            with engine.begin() as connection:
                connection.execute(text("ALTER TABLE gone RENAME TO switches"))
        if names[-1:] == ["snapshot"] and "trouble" in names:
            break
    stream.close()
    assert "trouble" in names


def test_shared_answer__is_made_again_only_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, answers = SharedAnswer(0.2), iter((b"1", b"2"))
    times_s = iter((100.0, 100.0, 100.1, 100.3, 100.3))
    monkeypatch.setattr("sluice.webui.services.time.monotonic", lambda: next(times_s))
    assert [shared.get(lambda: next(answers)) for _ in range(3)] == [b"1", b"1", b"2"]


def test_shared_answer__a_failure_is_shared_too() -> None:
    shared, asked = SharedAnswer(3600.0), list[str]()

    def ask() -> bytes:
        asked.append("the store")
        raise ValueError("away")

    for _ in range(2):
        with pytest.raises(ValueError, match="away"):
            shared.get(ask)
    assert len(asked) == 1
