# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, delete

from sluice.policy.wire.records import FlowRecord
from sluice.store import flow_list
from sluice.store.flow_list import FlowPage, find_flows
from sluice.store.flows import add_flows
from sluice.store.schema import flows
from tests.unit.webui.records import record


def flow(identity: str, **changes: Any) -> FlowRecord:
    return FlowRecord.from_document(record(identity, **changes))


def ids(page: FlowPage) -> list[str]:
    return [row["id"] for row in page.rows]


def test_find_flows__an_empty_store_has_one_empty_page(engine: Engine) -> None:
    assert find_flows(engine, {}) == FlowPage([], None, None)


def test_find_flows__pages_follow_each_other_and_the_last_one_says_so(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}") for i in range(4)])
    first = find_flows(engine, {}, limit=2)
    assert ids(first) == ["f3", "f2"]
    assert first.next is not None
    second = find_flows(engine, {"src": "h1"}, first.next, limit=2)
    assert (ids(second), second.next) == (["f1", "f0"], None)
    assert ids(find_flows(engine, {"src": "h2"})) == []


@pytest.mark.parametrize(
    ("matching", "found"),
    [
        ({"host": "h1"}, ["to", "from"]),
        ({"host": "h1", "label": "shuffle"}, ["from"]),
        ({"label": "other"}, []),
        ({"dst": "h1"}, ["to"]),
    ],
)
def test_find_flows__a_host_is_either_end(engine: Engine, matching: dict[str, str], found: list[str]) -> None:
    add_flows(
        engine,
        [
            flow("from", src="h1", dst="h2", label="shuffle"),
            flow("to", src="h3", dst="h1"),
            flow("past", src="h3", dst="h2", label="shuffle"),
        ],
    )
    assert ids(find_flows(engine, matching)) == found


def test_find_flows__a_page_looks_at_so_many_records_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_list, "MOST_SEARCHED", 10)
    add_flows(engine, [flow("rare", src="h7"), *(flow(f"f{i}") for i in range(25))])
    pages, before = [], None
    while True:
        page = find_flows(engine, {"src": "h7"}, before)
        pages.append(ids(page))
        before = page.next
        if before is None:
            break
    assert pages == [[], [], ["rare"]]


def test_find_flows__says_how_far_it_has_searched(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in (100.0, 200.0, 300.0):
        monkeypatch.setattr("sluice.store.flows.time.time", lambda at=at: at)
        add_flows(engine, [flow(f"at-{at:.0f}")])
    assert find_flows(engine, {}, limit=2).searched_to == 200.0
    assert find_flows(engine, {"src": "h7"}).searched_to == 100.0


def test_find_flows__goes_on_where_records_have_been_deleted_meanwhile(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}") for i in range(6)])
    cursor = find_flows(engine, {}, limit=2).next
    with engine.begin() as connection:
        connection.execute(delete(flows).where(flows.c.id.in_([f"f{i}" for i in range(5)])))
    assert find_flows(engine, {}, cursor) == FlowPage([], None, None)
