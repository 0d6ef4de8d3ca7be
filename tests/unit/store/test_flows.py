# SPDX-License-Identifier: Apache-2.0
"""Flow records: kept once, listed in pages, and summed."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, delete
from sqlalchemy.exc import SQLAlchemyError

from sluice.policy.wire.records import BACKGROUND, SIZE_CLASSES, UNFINISHED, WATCHED
from sluice.store import flow_queries, totals
from sluice.store import flows as flow_store
from sluice.store.flow_queries import (
    OTHER_SCHEME,
    SCHEME_NAMES,
    FlowPage,
    find_flows,
    flow_columns,
    flow_columns_after,
)
from sluice.store.flows import Added, Conflict, add_batch, add_flows, all_flows
from sluice.store.schema import flows
from sluice.store.totals import Tally, flush
from tests.unit.webui.records import flow


def test_add_flows__at_least_once_delivery_is_kept_exactly_once(engine: Engine) -> None:
    assert add_flows(engine, [flow("a"), flow("b")]) == 2
    assert add_flows(engine, [flow("b"), flow("c"), flow("c")]) == 1
    assert add_flows(engine, []) == 0
    assert flow_store.count_flows(engine) == 3
    assert [f.id for f in all_flows(engine)] == ["a", "b", "c"]
    assert [f.id for f in flow_store.recent_flows(engine, 0.0, limit=2)] == ["c", "b"]


def test_numbered_pages__together_are_all_flows_after_a_record(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}") for i in range(10)])
    add_flows(engine, [flow("w", source="watched", src_port=1, ideal_us=None)])
    after = flow_store.last_sequence(engine)
    assert list(flow_store.numbered_pages(engine, after=after)) == []
    add_flows(engine, [flow(f"g{i}") for i in range(5)])
    pages = [page for _, page in flow_store.numbered_pages(engine, after=after, page=2)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [record for page in pages for record in page] == all_flows(engine, after=after)
    assert flow_store.count_flows(engine, after=after) == 5


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


def test_flow_columns__the_newest_when_there_are_too_many(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}", fct_us=1000.0 + i) for i in range(10)])
    assert sorted(flow_columns(engine, 0.0, limit=3).fct_us) == [1007, 1008, 1009]
    columns, last = flow_columns_after(engine, 2, 0.0, limit=4)
    assert sorted(columns.fct_us) == [1006, 1007, 1008, 1009]
    assert last == flow_store.last_sequence(engine)
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
    assert last == flow_store.last_sequence(engine) - 1  # figures count no background flows
    watched, unfinished, medium, first = range(4)
    assert np.allclose(columns.fct_us, [2000, np.nan, 2000, 2000], equal_nan=True)
    assert np.allclose(columns.slowdown, [np.nan, np.nan, 2000 / 900, 2000 / 900], equal_nan=True)
    assert np.allclose(columns.at[[watched, medium, first]], before + 0.002, rtol=0, atol=1e-6)
    assert before <= columns.at[unfinished] <= time.time()
    assert [SIZE_CLASSES[place] for place in columns.size_class] == ["large", "large", "medium", "small"]
    assert [SCHEME_NAMES[place] for place in columns.scheme] == [OTHER_SCHEME, "pias", "sluice", "pias"]
    assert columns.has_deadline.tolist() == [True, True, True, False]
    assert columns.missed.tolist() == [True, True, False, False]
    assert columns.watched.tolist() == [True, False, False, False]
    assert np.array_equal(np.sort(flow_columns(engine, 0.0).at), np.sort(columns.at))


def ids(page: FlowPage) -> list[str]:
    return [row["id"] for row in page.rows]


def test_find_flows__a_page_looks_at_so_many_records_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_queries, "MOST_SEARCHED", 10)
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


def counted(engine: Engine, metric: totals.Metric) -> dict[tuple[str, ...], float]:
    """Return the number of values in all buckets."""
    return {total.labels: sum(total.buckets.values()) for total in totals.all_totals(engine)[metric.name]}


def values(engine: Engine, metric: totals.Metric) -> dict[tuple[str, ...], float]:
    """Return the values that are not zero."""
    return {
        total.labels: total.value for total in totals.all_totals(engine).get(metric.name, []) if total.value
    }


def test_observe__a_value_on_a_bound_is_in_the_bucket_of_that_bound(engine: Engine) -> None:
    tally = Tally()
    edge = totals.FLOW_SECONDS.buckets[3]
    seconds = [edge, edge * 1.001, 0.0, 1e9]
    tally.observe(totals.FLOW_SECONDS, seconds, source="scheduled", scheme="pias", size_class="small")
    flush(engine, tally)
    (total,) = totals.all_totals(engine)[totals.FLOW_SECONDS.name]
    assert total.labels == ("scheduled", "pias", "small")
    assert total.buckets == {
        totals.bound_text(totals.FLOW_SECONDS.buckets[0]): 1,
        totals.bound_text(edge): 1,
        totals.bound_text(totals.FLOW_SECONDS.buckets[4]): 1,
        "+Inf": 1,
    }
    assert total.sum == pytest.approx(sum(seconds))


def test_a_series_begins_with_zero(engine: Engine) -> None:
    """If a series began with its first event, Prometheus would not count that event as growth."""
    add_flows(engine, [flow("a")])
    assert [
        (total.labels, total.value) for total in totals.all_totals(engine)[totals.RETRANSMISSIONS.name]
    ] == [(("scheduled", "pias"), 0)]


def test_flush__a_store_that_fails_loses_no_count(engine: Engine) -> None:
    tally = Tally()
    tally.count(totals.RULES_CHANGED, 5)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE totals RENAME TO gone")
    with pytest.raises(SQLAlchemyError):
        flush(engine, tally)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO totals")
    tally.count(totals.RULES_CHANGED, 2)
    flush(engine, tally)
    assert values(engine, totals.RULES_CHANGED) == {(): 7}


def test_totals__many_writers_at_once_add_up(engine: Engine) -> None:
    def write(number: int) -> None:
        for _ in range(10):
            tally = Tally()
            for metric in (totals.RULES_CHANGED, totals.RECORDS_KNOWN):
                tally.count(metric)
            for switch in ("s1", "s2", f"s{number}"):
                tally.count(totals.SWITCH_CONNECTS, switch=switch)
            with engine.begin() as connection:
                totals.add_totals(connection, tally.take())

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert values(engine, totals.RULES_CHANGED) == values(engine, totals.RECORDS_KNOWN) == {(): 60}
    assert values(engine, totals.SWITCH_CONNECTS)["s1",] == 70


def test_add_flows__counts_a_record_once_however_often_it_comes(engine: Engine) -> None:
    batch = [flow("a", fct_us=1500.0), flow("b", scheme="tcp"), flow("c", status="unfinished", fct_us=None)]
    add_flows(engine, batch)
    fourth = flow("d")
    add_flows(engine, [*batch, fourth, fourth])
    assert values(engine, totals.FLOWS) == {
        ("scheduled", "pias", "finished"): 2,
        ("scheduled", "pias", "unfinished"): 1,
        ("scheduled", "tcp", "finished"): 1,
    }
    assert values(engine, totals.RECORDS_KNOWN) == {(): 4}
    assert counted(engine, totals.FLOW_SECONDS) == {
        ("scheduled", "pias", "small"): 2,
        ("scheduled", "tcp", "small"): 1,
    }


def test_add_flows__deadlines_and_sources(engine: Engine) -> None:
    late = {"deadline_us": 1000.0, "met": False}
    add_flows(
        engine,
        [
            flow("a", **late),
            flow("b", deadline_us=1e5, met=True),
            flow("w", source="watched", ideal_us=None, **late),
            flow("e", source="background", ideal_us=None),
        ],
    )
    assert values(engine, totals.DEADLINE_FLOWS) == {
        ("scheduled", "pias", "false"): 1,
        ("scheduled", "pias", "true"): 1,
        ("watched", "pias", "false"): 1,
    }
    assert values(engine, totals.FLOWS)["watched", "pias", "finished"] == 1
    assert counted(engine, totals.FLOW_SECONDS) == {
        ("scheduled", "pias", "small"): 2,
        ("watched", "pias", "small"): 1,
    }
    assert counted(engine, totals.FLOW_SLOWDOWN) == {
        ("scheduled", "pias", "small"): 2,
        ("watched", "pias", "small"): 0,
    }


def test_all_totals__counts_without_a_source_are_of_scheduled_flows(engine: Engine) -> None:
    with engine.begin() as connection:
        totals.add_totals(connection, {(totals.DEADLINE_FLOWS.name, '["pias","false"]', ""): 3})
    add_flows(engine, [flow("a", deadline_us=1000.0, met=False)])
    assert values(engine, totals.DEADLINE_FLOWS) == {("scheduled", "pias", "false"): 4}


def test_add_flows__schemes_that_nobody_knows_are_one(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}", scheme=f"invented-{i}") for i in range(50)])
    assert values(engine, totals.FLOWS) == {("scheduled", OTHER_SCHEME, "finished"): 50}
