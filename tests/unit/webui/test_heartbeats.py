# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import partial

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sluice.policy.schema.desired import Policy
from sluice.policy.wire.agents import Heartbeat, heartbeat_document, heartbeat_from
from sluice.runtime.wait import wait_until
from sluice.store.desired import put_policy
from sluice.store.heartbeats import Kept, put_heartbeats
from sluice.store.observed import find_agent
from sluice.webui import ingestion as module
from sluice.webui.ingestion import Heartbeats, Outcome
from tests.kit.heartbeats import host_heartbeat


class Parser:
    """Counts the bodies that are parsed."""

    def __init__(self) -> None:
        self.parsed = 0

    def __call__(self, _name: str, body: bytes) -> Heartbeat:
        self.parsed += 1
        return heartbeat_from(json.loads(body))


def body(started: int = 0) -> bytes:
    return json.dumps(heartbeat_document(host_heartbeat(flows_started=started))).encode()


def test_read__only_a_body_that_differs_from_the_agents_last_one_is_parsed(engine: Engine) -> None:
    beats, parser = Heartbeats(engine), Parser()
    for name, started, parsed in (
        ("a", 1, 1),
        ("a", 1, 1),
        ("a", 2, 2),
        ("a", 1, 3),
        ("b", 1, 4),
        ("a", 1, 4),
    ):
        assert beats.read(name, body(started), parser) == host_heartbeat(flows_started=started)
        assert parser.parsed == parsed


def test_read__remembers_no_more_agents_than_there_may_be(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_AGENTS", 3)
    beats = Heartbeats(engine)
    for number in range(10):
        beats.read(f"h{number}", body(), Parser())
        assert len(beats._last) <= 3
    monkeypatch.setattr(module, "REMEMBERED_BYTES", 10)
    parser = Parser()
    for _ in range(2):
        beats.read("new", body(), parser)
    assert parser.parsed == 2


def test_settings__are_those_of_the_newest_policy(engine: Engine) -> None:
    beats = Heartbeats(engine)
    assert beats.add("a", host_heartbeat()) == Outcome(True, 0)
    assert beats.settings(0)["policy_version"] == 0
    for scheme in ("pias", "sluice"):
        put_policy(engine, Policy.from_document({"scheme": scheme}), "test")
        version = beats.add("a", host_heartbeat()).policy_version
        found = beats.settings(version)
        assert (found["policy_version"], found["host"]["scheme"]) == (version, scheme)
        assert beats.settings(version) is found


def test_add__is_kept(engine: Engine) -> None:
    Heartbeats(engine).add("a", host_heartbeat(flows_started=5))
    assert find_agent(engine, "a") == host_heartbeat(flows_started=5)


def _has_waiting(beats: Heartbeats, number: int) -> bool:
    return len(beats._waiting) == number


@pytest.mark.parametrize("fails", [False, True])
def test_add__what_came_while_another_was_written_is_written_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    go, written = threading.Event(), list[list[str]]()
    outcomes: dict[str, Outcome | Exception] = {}

    def slow(engine: Engine, beats: Mapping[str, Heartbeat]) -> Kept:
        written.append(list(beats))
        if len(written) == 1:
            assert go.wait(300)
        elif fails:
            raise OperationalError("UPDATE", {}, Exception("the disk is full"))
        return put_heartbeats(engine, beats)

    def add(name: str) -> None:
        try:
            outcomes[name] = beats.add(name, host_heartbeat())
        except OperationalError as error:
            outcomes[name] = error

    monkeypatch.setattr(module, "put_heartbeats", slow)
    beats = Heartbeats(engine)
    threads = [threading.Thread(target=add, args=[name]) for name in "abc"]
    for number, thread in enumerate(threads):
        thread.start()
        # The first one is being written; each later one waits.
        wait_until(partial(_has_waiting, beats, number), "the heartbeat waits")
    go.set()
    for thread in threads:
        thread.join(60)
    assert written == [["a"], ["b", "c"]]
    assert outcomes["a"] == Outcome(True, 0)
    assert all(isinstance(outcomes[name], OperationalError) == fails for name in "bc")
