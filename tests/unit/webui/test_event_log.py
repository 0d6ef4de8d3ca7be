# SPDX-License-Identifier: Apache-2.0

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete

from sluice.policy.errors import EnvironmentLacking
from sluice.store.engine import open_store
from sluice.store.observed import add_event
from sluice.store.schema import events
from sluice.webui.housekeeping import EventLog, event_line


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "events.jsonl"


def written(engine: Engine, path: Path) -> None:
    log = EventLog(engine, str(path))
    log.write_new()
    log.close()


def test_event_line__keys_in_order_and_no_line_break() -> None:
    row = {"at": 1769860800.25, "id": 17, "kind": "tick", "document": {"text": "a\nb"}}
    line = event_line(row)
    assert line.count(b"\n") == 1
    assert list(json.loads(line).items()) == [
        ("time", "2026-01-31T12:00:00.250Z"),
        ("at", 1769860800.25),
        ("id", 17),
        ("kind", "tick"),
        ("document", {"text": "a\nb"}),
    ]


def test_file__each_event_once_over_restarts(engine: Engine, path: Path) -> None:
    for start in range(3):
        add_event(engine, "tick", number=start)
        written(engine, path)
        written(engine, path)
    assert [line["document"]["number"] for line in lines(path)] == [0, 1, 2]


def test_file__a_torn_line_is_mended(engine: Engine, path: Path) -> None:
    for number in range(3):
        add_event(engine, "tick", number=number)
    written(engine, path)
    path.write_bytes(path.read_bytes()[:-20])
    written(engine, path)
    assert [line["id"] for line in lines(path)] == [1, 2, 3]


def test_file__another_store_begins_with_its_first_event(engine: Engine, path: Path, tmp_path: Path) -> None:
    for number in range(3):
        add_event(engine, "tick", number=number)
    written(engine, path)
    for count in (1, 5):
        other = open_store(f"sqlite:///{tmp_path}/other-{count}.db")
        for number in range(count):
            add_event(other, "tock", number=number)
        written(other, path)
        written(other, path)
        other.dispose()
    assert [line["kind"] for line in lines(path)] == ["tick"] * 3 + ["tock"] * 6


def test_file__goes_on_where_the_last_event_has_been_forgotten(engine: Engine, path: Path) -> None:
    for _ in range(3):
        add_event(engine, "tick")
    written(engine, path)
    add_event(engine, "late")
    with engine.begin() as connection:
        connection.execute(delete(events).where(events.c.id <= 3))
    written(engine, path)
    assert [line["id"] for line in lines(path)] == [1, 2, 3, 4]


def test_file__one_of_several_writes_and_another_takes_over(engine: Engine, path: Path) -> None:
    first, second = EventLog(engine, str(path)), EventLog(engine, str(path))
    add_event(engine, "tick")
    for log in (first, second, first):
        log.write_new()
    assert len(lines(path)) == 1
    first.close()
    add_event(engine, "tick")
    second.write_new()
    assert [line["id"] for line in lines(path)] == [1, 2]
    second.close()


def test_file__that_is_none_is_refused(engine: Engine, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.write_text("my novel\n")
    with pytest.raises(EnvironmentLacking, match="another --event-log"):
        written(engine, path)
    assert path.read_text() == "my novel\n"
    with pytest.raises(EnvironmentLacking, match="another --event-log"):
        EventLog(engine, str(tmp_path))


def test_standard_error__only_what_comes_from_now_on(
    engine: Engine, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    add_event(engine, "before")
    log = EventLog(engine, "-")
    log.write_new()
    add_event(engine, "after")
    log.write_new()
    log.close()
    assert [json.loads(line)["kind"] for line in capfdbinary.readouterr().err.splitlines()] == ["after"]
