# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.policy.wire.records import FlowRecord
from sluice.store.flow_columns import FlowColumns, flow_columns
from sluice.store.flows import add_flows
from sluice.webui import recent as recent_module
from sluice.webui.recent import RecentFlows
from tests.unit.webui.records import record


def add(engine: Engine, first: int, count: int, **changes: Any) -> None:
    add_flows(
        engine, [FlowRecord.from_document(record(f"f{i}", **changes)) for i in range(first, first + count)]
    )


def same(one: FlowColumns, other: FlowColumns) -> bool:
    def rows(columns: FlowColumns) -> list[tuple[Any, ...]]:
        schemes = [columns.schemes[place] for place in columns.scheme]
        arrays = (columns.at, columns.size_class, schemes, columns.has_deadline, columns.missed)
        return sorted(zip(*arrays, strict=True))

    return rows(one) == rows(other)


def test_since__is_what_the_store_says(engine: Engine) -> None:
    recent = RecentFlows(engine)
    assert len(recent.since(time.time() - 60)) == 0
    for turn in range(4):
        add(engine, turn * 10, 10, started_at=time.time() - 30 * turn, scheme=f"scheme{'x' * turn}")
        for window_s in (10, 45, 100):
            at = time.time() - window_s
            assert same(recent.since(at), flow_columns(engine, at))
    assert len(recent.since(time.time() - 200)) == 40


def test_since__reads_each_record_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RecentFlows(engine)
    add(engine, 0, 50)
    read: list[int] = []
    original = FlowColumns.from_rows

    def counted(rows: Sequence[tuple[Any, ...]]) -> FlowColumns:
        read.append(len(rows))
        return original(rows)

    monkeypatch.setattr(FlowColumns, "from_rows", staticmethod(counted))
    for _ in range(5):
        assert len(recent.since(time.time() - 60)) == 50
    add(engine, 50, 1)
    assert len(recent.since(time.time() - 60)) == 51
    assert sum(read) == 51


def test_since__what_is_older_than_the_memory_comes_from_the_store(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_module, "SPAN_S", 0.0)
    recent = RecentFlows(engine)
    add(engine, 0, 5)
    assert len(recent.since(time.time() - 60)) == 5


@pytest.mark.parametrize("turns", [1, 3])
def test_since__forgets_what_is_older_than_the_span(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    recent = RecentFlows(engine)
    for turn in range(turns):
        add(engine, turn, 1)
        recent.since(clock[0] - 10)
        clock[0] += 1
    clock[0] += recent_module.SPAN_S
    recent.since(clock[0] - 10)
    assert not recent._chunks


def test_since__holds_no_more_than_so_many_however_many_come(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_module, "MOST_COLUMNS", 50)
    recent = RecentFlows(engine)
    recent.since(time.time() - 60)
    for turn in range(12):
        add(engine, turn * 10, 10)
        recent.since(time.time() - 0.001)
        assert sum(len(chunk.columns) for chunk in recent._chunks) == recent._held <= 60


def test_since__a_full_memory_gives_the_newest_flows_and_asks_the_store_only_for_the_past(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_module, "MOST_COLUMNS", 45)
    recent = RecentFlows(engine)
    began = time.time() - 1000
    for turn in range(12):
        add(engine, turn * 10, 10, started_at=began + turn)
        recent.since(time.time() - 0.001)
    asked: list[float] = []
    monkeypatch.setattr(recent_module, "flow_columns", lambda _, at, until: asked.append(until))
    held = recent.since(began - 60)
    assert len(held) == 45
    assert set(held.at // 1) == {(began + turn + 0.002) // 1 for turn in range(7, 12)}
    assert not asked
    recent.since(began - 60, began + 60)
    assert asked == [began + 60]
