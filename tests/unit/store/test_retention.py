# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, select

from sluice.policy.retention import Retention
from sluice.store import observed, schema
from sluice.store.ages import mark
from sluice.store.flows import add_flows, all_flows, last_sequence
from sluice.store.observed import PortSample, ThresholdChange
from sluice.store.retention import forget_some
from tests.unit.webui.records import flow

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("partitions_of_one_record")]

NOW = 1_000_000.0
"""A reading of the store's clock."""
HOUR = Retention(flows_s=3600, samples_s=3600, events_s=3600, most_flows=None)


def add_aged_flows(engine: Engine, ages_s: Iterable[float]) -> None:
    """Add records that the store had this many seconds before NOW, the oldest first."""
    for age_s in ages_s:
        add_flows(engine, [flow(f"age-{age_s}")])
        mark(engine, NOW - age_s, every_s=0)


def forget_all(engine: Engine, retention: Retention, rows: int = 2) -> None:
    while forget_some(engine, retention, NOW, rows):
        pass


def test_forget__what_is_older_than_its_time_goes_and_the_rest_stays(engine: Engine) -> None:
    for age_s in (9000, 4000, 3601, 3599, 5):
        observed.add_port_samples(engine, [PortSample(NOW - age_s, "s1:1", (1,), (1,))])
        add_aged_flows(engine, [age_s])
    forget_all(engine, HOUR)
    assert [flow.id for flow in all_flows(engine)] == ["age-3599", "age-5"]
    assert [sample.at for sample in observed.port_history(engine, 0)] == [NOW - 3599, NOW - 5]


def test_forget__the_newest_row_of_each_table_stays_however_old(engine: Engine) -> None:
    """Readers continue after its number, and the store must not give a number twice."""
    add_aged_flows(engine, [9000, 8000])
    for at in (1.0, 2.0):
        observed.add_thresholds(engine, [ThresholdChange(at, p, 1, (int(at),), 7) for p in ("s1:1", "s1:2")])
        observed.add_port_samples(engine, [PortSample(at, p, (1,), (1,)) for p in ("s1:1", "s1:2")])
        with engine.begin() as connection:
            connection.execute(insert(schema.events).values(at=at, kind="tick", document={"at": at}))
    mark(engine, NOW - 7000, every_s=0)
    before = last_sequence(engine)
    forget_all(engine, HOUR)
    assert [flow.id for flow in all_flows(engine)] == ["age-8000"]
    assert {port: c.thresholds_bytes for port, c in observed.latest_thresholds(engine).items()} == {
        "s1:1": (2,),
        "s1:2": (2,),
    }
    assert len(observed.threshold_history(engine, 0)) == len(observed.port_history(engine, 0)) == 2
    assert [row["document"] for row in observed.newest_events(engine, 9)] == [{"at": 2.0}]
    observed.add_event(engine, "next")
    assert observed.newest_events(engine, 1)[0]["id"] == 3
    add_aged_flows(engine, [1])
    assert last_sequence(engine) == before + 1


def test_forget__too_many_flows_however_young(engine: Engine) -> None:
    add_aged_flows(engine, range(20, 0, -1))
    forget_all(engine, Retention(None, None, None, most_flows=7))
    assert [flow.id for flow in all_flows(engine)] == [f"age-{age_s}" for age_s in range(7, 0, -1)]


def test_forget__rows_without_a_mark_stay(engine: Engine) -> None:
    """As in a store of an earlier version: no one knows how old its rows are."""
    add_flows(engine, [flow(f"old-{number}") for number in range(3)])
    forget_all(engine, HOUR)
    assert len(all_flows(engine)) == 3
    for later_s in (3590, 3610):
        while forget_some(engine, HOUR, NOW + later_s):
            pass
        assert len(all_flows(engine)) == (3 if later_s < 3600 else 1)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_marks__one_a_minute_and_none_that_no_one_needs(engine: Engine) -> None:
    for second in range(0, 4_000, 20):
        forget_some(engine, HOUR, NOW + second)
    with engine.connect() as connection:
        kept = connection.execute(select(schema.marks.c.age_s).order_by(schema.marks.c.age_s)).scalars().all()
    assert kept[0] >= NOW + 4_000 - 3600 - 80
    assert 60 <= len(kept) <= 63


def test_forget__no_more_rows_at_once_than_asked(engine: Engine) -> None:
    add_aged_flows(engine, range(5010, 4999, -1))
    assert [forget_some(engine, HOUR, NOW, rows=4) for _ in range(4)] == [4, 4, 2, 0]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_sqlite__the_file_does_not_grow_once_as_much_is_forgotten_as_comes(
    engine: Engine, tmp_path: Path
) -> None:
    """The file takes in 12 times what it keeps."""
    keep, sizes, one = 400, [], flow("one", started_at=NOW)
    for day in range(12):
        for batch in range(4):
            add_flows(engine, [replace(one, id=f"run/{day}-{batch}-{i}") for i in range(keep // 4)])
            samples = [PortSample(NOW - 1, f"s1:{i}", (10**9,) * 8, (10**6,) * 8) for i in range(20)]
            observed.add_port_samples(engine, samples)
            forget_all(engine, Retention(None, None, None, most_flows=keep), rows=500)
            forget_all(engine, Retention(None, 0, None, None), rows=500)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes.append((tmp_path / "store.db").stat().st_size)
    assert len(all_flows(engine)) == keep
    assert sizes[-1] <= sizes[2] * 1.1, sizes
