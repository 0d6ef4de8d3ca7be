# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Engine

from sluice.policy.wire.records import BACKGROUND, SIZE_CLASSES, UNFINISHED, WATCHED, FlowRecord
from sluice.store.flow_columns import OTHER_SCHEME, flow_columns, flow_columns_after
from sluice.store.flows import (
    Added,
    Conflict,
    add_batch,
    add_flows,
    all_flows,
    count_flows,
    flow_pages,
    last_sequence,
    recent_flows,
)
from tests.unit.webui.records import record


def flow(identity: str, **changes: Any) -> FlowRecord:
    return FlowRecord.from_document(record(identity, **changes))


def test_add_flows__at_least_once_delivery_is_kept_exactly_once(engine: Engine) -> None:
    assert add_flows(engine, [flow("a"), flow("b")]) == 2
    assert add_flows(engine, [flow("b"), flow("c"), flow("c")]) == 1
    assert add_flows(engine, []) == 0
    assert count_flows(engine) == 3
    assert [f.id for f in all_flows(engine)] == ["a", "b", "c"]
    assert [f.id for f in recent_flows(engine, limit=2)] == ["c", "b"]


def test_flow_pages__together_are_all_flows_after_a_record(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}") for i in range(10)])
    add_flows(engine, [flow("w", source="watched", src_port=1, ideal_us=None)])
    after = last_sequence(engine)
    assert list(flow_pages(engine, after=after)) == []
    add_flows(engine, [flow(f"g{i}") for i in range(5)])
    pages = list(flow_pages(engine, after=after, page=2))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [record for page in pages for record in page] == all_flows(engine, after=after)


def test_add_flows__many_at_once(engine: Engine) -> None:
    assert add_flows(engine, [flow(f"f{i}") for i in range(5000)]) == 5000
    assert add_flows(engine, [flow(f"f{i}") for i in range(4990, 5010)]) == 10


def test_flow_columns__in_the_window_by_the_time_a_flow_finished(engine: Engine) -> None:
    now = time.time()
    add_flows(
        engine,
        [
            flow("in", started_at=now - 5, fct_us=2e6, deadline_us=1e6, met=False),
            flow("before", started_at=now - 50, fct_us=2e6),
            flow(
                "unfinished", started_at=now - 50, fct_us=None, status="unfinished", deadline_us=1e3, met=True
            ),
        ],
    )
    columns = flow_columns(engine, now - 10)
    assert len(columns) == 2
    finished = ~np.isnan(columns.fct_us)
    assert columns.at[finished][0] == now - 3
    assert columns.has_deadline.all()
    assert columns.missed.tolist().count(True) == 1
    assert len(flow_columns(engine, now + 100)) == 0


def test_add_batch__a_record_that_differs_from_the_stored_one_is_a_conflict(engine: Engine) -> None:
    first = flow("a")
    add_flows(engine, [first])
    forged = replace(first, bytes=first.bytes + 1)
    second = flow("b")
    twice = replace(second, retransmissions=7)
    assert add_batch(engine, [flow("c"), forged]) == Added(1, (Conflict(forged, "bytes"),))
    assert add_batch(engine, [second, first, twice]) == Added(1, (Conflict(twice, "retransmissions"),))
    assert add_batch(engine, [second, twice, first]) == Added(0, (Conflict(twice, "retransmissions"),))
    assert [stored.bytes for stored in all_flows(engine)] == [first.bytes] * 3


def test_add_batch__a_watched_flow_may_be_completed_otherwise_when_it_comes_again(engine: Engine) -> None:
    first = flow("w", source=WATCHED, src="192.0.2.1", ideal_us=None)
    add_flows(engine, [first])
    assert add_batch(engine, [replace(first, src="h1", ideal_us=9.0)]) == Added()
    added = add_batch(engine, [replace(first, status=UNFINISHED, fct_us=None)])
    assert [conflict.field for conflict in added.conflicts] == ["fct_us"]


def test_add_batch__how_many_were_new(engine: Engine) -> None:
    add_flows(engine, [flow("a")])
    batches = [[flow("a"), flow("b")], [], [flow("b"), flow("c"), flow("c")], [flow("d")]]
    assert [add_batch(engine, each).new for each in batches] == [1, 0, 1, 1]
    assert [f.id for f in all_flows(engine)] == ["a", "b", "c", "d"]


def test_flow_columns__the_newest_when_there_are_too_many(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}", fct_us=1000.0 + i) for i in range(10)])
    assert sorted(flow_columns(engine, 0.0, limit=3).fct_us) == [1007, 1008, 1009]
    columns, last = flow_columns_after(engine, 2, 0.0, limit=4)
    assert sorted(columns.fct_us) == [1006, 1007, 1008, 1009]
    assert last == last_sequence(engine)
    assert flow_columns_after(engine, last, 0.0)[1] == last


def test_flow_columns__every_kind_of_record(engine: Engine) -> None:
    late = {"deadline_us": 1e3, "met": False, "size_class": "large"}
    kinds: list[dict[str, Any]] = [
        {},
        {"met": True, "deadline_us": 5e3, "size_class": "medium", "scheme": "sluice"},
        {**late, "fct_us": None, "status": UNFINISHED},
        {**late, "source": WATCHED, "ideal_us": None, "scheme": "of-a-later-version"},
        {"source": BACKGROUND},
    ]
    before = time.time()
    add_flows(engine, [flow(f"f{i}", started_at=before, **kind) for i, kind in enumerate(kinds)])
    columns, last = flow_columns_after(engine, 0, 0.0)
    assert last == last_sequence(engine) - 1  # figures count no background flows
    watched, unfinished, medium, first = range(4)
    assert np.allclose(columns.fct_us, [2000, np.nan, 2000, 2000], equal_nan=True)
    assert np.allclose(columns.slowdown, [np.nan, np.nan, 2000 / 900, 2000 / 900], equal_nan=True)
    assert np.allclose(columns.at[[watched, medium, first]], before + 0.002, rtol=0, atol=1e-6)
    assert before <= columns.at[unfinished] <= time.time()
    assert [SIZE_CLASSES[place] for place in columns.size_class] == ["large", "large", "medium", "small"]
    assert [columns.schemes[place] for place in columns.scheme] == [OTHER_SCHEME, "pias", "sluice", "pias"]
    assert columns.has_deadline.tolist() == [True, True, True, False]
    assert columns.missed.tolist() == [True, True, False, False]
    assert columns.watched.tolist() == [True, False, False, False]
    assert np.array_equal(np.sort(flow_columns(engine, 0.0).at), np.sort(columns.at))


def test_flows_of_a_run__are_those_after_a_sequence_number(engine: Engine) -> None:
    add_flows(engine, [flow("a"), flow("b")])
    before = last_sequence(engine)
    add_flows(engine, [flow("c"), flow("w", source="watched")])
    assert count_flows(engine, after=before) == 1
    assert [f.id for f in all_flows(engine, after=before)] == ["c"]
