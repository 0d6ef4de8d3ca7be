# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.policy.wire.records import FlowRecord
from sluice.store.flow_columns import OTHER_SCHEME
from sluice.store.flows import add_flows
from sluice.store.totals import (
    DEADLINE_FLOWS,
    FLOW_SECONDS,
    FLOW_SLOWDOWN,
    FLOWS,
    METRICS,
    RECORDS_KNOWN,
    RETRANSMISSIONS,
    RULES_CHANGED,
    SWITCH_CONNECTS,
    Metric,
    Tally,
    add_totals,
    all_totals,
    bound_text,
    flush,
)
from tests.unit.webui.records import record


def flow(identity: str, **changes: Any) -> FlowRecord:
    return FlowRecord.from_document(record(identity, **changes))


def values(engine: Engine, metric: Metric) -> dict[tuple[str, ...], float]:
    """Return the values that are not zero."""
    return {total.labels: total.value for total in all_totals(engine).get(metric.name, []) if total.value}


def test_totals__grow_by_what_was_counted(engine: Engine) -> None:
    tally = Tally()
    for _ in range(3):
        tally.count(RULES_CHANGED, 5)
        tally.count(SWITCH_CONNECTS, switch="s1")
        flush(engine, tally)
    flush(engine, tally)
    assert values(engine, RULES_CHANGED) == {(): 15}
    assert values(engine, SWITCH_CONNECTS) == {("s1",): 3}


def test_observe__a_value_on_a_bound_is_in_the_bucket_of_that_bound(engine: Engine) -> None:
    tally = Tally()
    edge = FLOW_SECONDS.buckets[3]
    seconds = [edge, edge * 1.001, 0.0, 1e9]
    tally.observe(FLOW_SECONDS, seconds, source="scheduled", scheme="pias", size_class="small")
    flush(engine, tally)
    (total,) = all_totals(engine)[FLOW_SECONDS.name]
    assert total.labels == ("scheduled", "pias", "small")
    assert total.buckets == {
        bound_text(FLOW_SECONDS.buckets[0]): 1,
        bound_text(edge): 1,
        bound_text(FLOW_SECONDS.buckets[4]): 1,
        "+Inf": 1,
    }
    assert total.sum == pytest.approx(sum(seconds))


def test_a_series_begins_with_zero(engine: Engine) -> None:
    """If a series began with its first event, Prometheus would not count that event as growth."""
    add_flows(engine, [flow("a")])
    assert [(total.labels, total.value) for total in all_totals(engine)[RETRANSMISSIONS.name]] == [
        (("scheduled", "pias"), 0)
    ]


def test_count__wrong_labels_are_a_bug() -> None:
    with pytest.raises(ValueError, match="switch"):
        Tally().count(SWITCH_CONNECTS, port="s1:1")


def test_flush__a_store_that_fails_loses_no_count(engine: Engine) -> None:
    tally = Tally()
    tally.count(RULES_CHANGED, 5)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE totals RENAME TO gone")
    with pytest.raises(SQLAlchemyError):
        flush(engine, tally)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO totals")
    tally.count(RULES_CHANGED, 2)
    flush(engine, tally)
    assert values(engine, RULES_CHANGED) == {(): 7}


def test_totals__many_writers_at_once_add_up(engine: Engine) -> None:
    def write(number: int) -> None:
        for _ in range(10):
            tally = Tally()
            for metric in (RULES_CHANGED, RECORDS_KNOWN):
                tally.count(metric)
            for switch in ("s1", "s2", f"s{number}"):
                tally.count(SWITCH_CONNECTS, switch=switch)
            with engine.begin() as connection:
                add_totals(connection, tally.take())

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert values(engine, RULES_CHANGED) == values(engine, RECORDS_KNOWN) == {(): 60}
    assert values(engine, SWITCH_CONNECTS)["s1",] == 70


def test_add_flows__counts_a_record_once_however_often_it_comes(engine: Engine) -> None:
    batch = [flow("a", fct_us=1500.0), flow("b", scheme="tcp"), flow("c", status="unfinished", fct_us=None)]
    add_flows(engine, batch)
    fourth = flow("d")
    add_flows(engine, [*batch, fourth, fourth])
    assert values(engine, FLOWS) == {
        ("scheduled", "pias", "finished"): 2,
        ("scheduled", "pias", "unfinished"): 1,
        ("scheduled", "tcp", "finished"): 1,
    }
    assert values(engine, RECORDS_KNOWN) == {(): 4}
    small = {total.labels: sum(total.buckets.values()) for total in all_totals(engine)[FLOW_SECONDS.name]}
    assert small == {("scheduled", "pias", "small"): 2, ("scheduled", "tcp", "small"): 1}


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
    assert values(engine, DEADLINE_FLOWS) == {
        ("scheduled", "pias", "false"): 1,
        ("scheduled", "pias", "true"): 1,
        ("watched", "pias", "false"): 1,
    }
    assert values(engine, FLOWS)["watched", "pias", "finished"] == 1
    counted = {total.labels: sum(total.buckets.values()) for total in all_totals(engine)[FLOW_SECONDS.name]}
    assert counted == {("scheduled", "pias", "small"): 2, ("watched", "pias", "small"): 1}
    slowdowns = {
        total.labels: sum(total.buckets.values()) for total in all_totals(engine)[FLOW_SLOWDOWN.name]
    }
    assert slowdowns == {("scheduled", "pias", "small"): 2, ("watched", "pias", "small"): 0}


def test_all_totals__counts_without_a_source_are_of_scheduled_flows(engine: Engine) -> None:
    with engine.begin() as connection:
        add_totals(connection, {(DEADLINE_FLOWS.name, '["pias","false"]', ""): 3})
    add_flows(engine, [flow("a", deadline_us=1000.0, met=False)])
    assert values(engine, DEADLINE_FLOWS) == {("scheduled", "pias", "false"): 4}


def test_add_flows__schemes_that_nobody_knows_are_one(engine: Engine) -> None:
    add_flows(engine, [flow(f"f{i}", scheme=f"invented-{i}") for i in range(50)])
    assert values(engine, FLOWS) == {("scheduled", OTHER_SCHEME, "finished"): 50}


def test_metrics__names_are_unique_and_buckets_increase() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert list(metric.buckets) == sorted(set(metric.buckets))
