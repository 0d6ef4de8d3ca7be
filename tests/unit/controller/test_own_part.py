# SPDX-License-Identifier: Apache-2.0
"""Giving a switch up: its session ends its operation, the store gets the last rows, and the part is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Engine

from sluice.controller.leadership import Share
from sluice.controller.openflow import RoleReply
from sluice.controller.own_part import END_NS, REPEAT_NS, OwnPart
from sluice.controller.recorder import Recorder
from sluice.controller.session import Session
from sluice.runtime.wait import wait_until
from sluice.store import lease, observed, parts
from sluice.store.engine import open_store
from sluice.store.parts import LEASE
from tests.unit.controller.driven import policy
from tests.unit.controller.sessions import MASTER, PlayedSession


def add_event(engine: Engine, kind: str) -> None:
    observed.add_event(engine, kind)


def share(held: Mapping[int, int], leaving: Mapping[int, int] | None = None) -> Share:
    return Share(held, leaving or {}, {}, {})


def test_adopt__names_what_is_lost_and_what_is_new() -> None:
    own = OwnPart()
    assert own.adopt(share({1: 5, 2: 5}), {}, 0) == (set(), {1, 2})
    assert own.adopt(share({1: 5}, {2: 5}), {}, 0) == (set(), set())
    assert own.adopt(share({1: 6}), {}, 0) == ({1, 2}, {1})


def test_to_drop__a_switch_without_a_session_at_once_and_again_until_it_is_gone() -> None:
    own = OwnPart()
    own.adopt(share({}, {1: 5}), {}, 0)
    assert list(own.to_drop({}, 0)) == [1]
    assert list(own.to_drop({}, REPEAT_NS - 1)) == []
    assert list(own.to_drop({}, REPEAT_NS)) == [1]
    own.adopt(share({}), {}, 0)
    assert list(own.to_drop({}, 2 * REPEAT_NS)) == []


def test_to_drop__a_session_ends_its_operation_first_and_begins_no_other() -> None:
    played = PlayedSession(policy())
    sessions: dict[int, Session] = {1: played.session}
    own = OwnPart()
    own.adopt(share({1: 5}), sessions, 0)
    played.session.advance(0)
    own.adopt(share({}, {1: 5}), sessions, 0)
    assert not played.session.is_idle
    assert list(own.to_drop(sessions, 1)) == []
    (request,) = played.sent[-1]
    played.take(RoleReply(request.xid, MASTER))
    assert played.session.is_idle
    played.session.advance(1)
    assert played.session.is_idle
    assert list(own.to_drop(sessions, 1)) == [1]


def test_to_drop__a_session_that_does_not_end_its_operation_is_dropped_in_the_end() -> None:
    played = PlayedSession(policy())
    own = OwnPart()
    played.session.advance(0)
    own.adopt(share({}, {1: 5}), {1: played.session}, 0)
    assert list(own.to_drop({1: played.session}, END_NS - 1)) == []
    assert list(own.to_drop({1: played.session}, END_NS)) == [1]


def test_the_last_rows_of_a_part_are_written_before_it_is_dropped_and_those_of_others_never(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    engine = open_store(url)
    lease.take(engine, LEASE, lease.SHARED, None)
    parts.beat(engine, "me")
    parts.take(engine, "me", {1: None, 2: None})
    held = {part: row.generation for part, row in parts.look(engine).parts.items()}
    recorder, dropped = Recorder(url, lambda _: None), []
    recorder.share(held, held, max(held.values()))
    recorder.record(add_event, "of the coordinator")
    recorder.record_of(1, add_event, "of a switch that is left")
    recorder.record_of(2, add_event, "of a switch that is lost")
    recorder.record_of(3, add_event, "of another one's switch")
    recorder.finish(1, lambda: dropped.append([e["kind"] for e in observed.recent_events(engine, 0)]))
    parts.leave(engine, "me")
    parts.beat(engine, "other")
    parts.take(engine, "other", {2: parts.look(engine).parts[2]})
    recorder.share({1: held[1]}, {1: held[1]}, max(held.values()))
    recorder.start()
    wait_until(lambda: dropped, "the rows are written")
    assert dropped == [["of a switch that is left"]]
    recorder.stop(5)
    engine.dispose()
