# SPDX-License-Identifier: Apache-2.0
"""The partitions of flow records: made, removed, read meanwhile, and made of the table of an earlier version."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from sluice.store import flows as flow_store
from sluice.store import partitions
from sluice.store.engine import engine_of, open_store
from sluice.store.flow_queries import find_flows
from sluice.store.flows import add_flows
from sluice.store.partitions import forget_flows
from sluice.store.schema import detached_flows, flow_ids, flows, postgresql_only
from sluice.store.totals import FLOWS, all_totals
from tests.pg.records import batch, flow, kept, parts

pytestmark = pytest.mark.pg

SIZE = 10


@pytest.fixture(autouse=True)
def _small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RECORDS", SIZE)


def number_of_ids(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(flow_ids)).scalar_one()


def test_a_batch_that_fills_several_partitions_is_kept_whole_and_in_order(engine: Engine) -> None:
    assert add_flows(engine, batch(4)) == 4
    assert add_flows(engine, batch(31, first=4)) == 31
    assert kept(engine) == list(range(35))
    assert flow_store.last_sequence(engine) == 35
    with engine.connect() as connection:
        places = connection.execute(
            select(func.count(func.distinct(text("flows.tableoid")))).select_from(  # tables with records
                flows
            )
        ).scalar()
    assert places == 4


def test_an_id_is_unique_over_all_partitions(engine: Engine) -> None:
    add_flows(engine, batch(35))
    forged = replace(flow(3), bytes=1)
    added = flow_store.add_batch(engine, [flow(2), forged, flow(35), flow(34)])
    assert (added.new, added.conflicts) == (1, (flow_store.Conflict(forged, "bytes"),))
    assert kept(engine) == list(range(36))
    with pytest.raises(DBAPIError, match="flow_ids_pkey"), engine.begin() as connection:
        connection.execute(flow_ids.insert().values(id="2", sequence=99))


def test_a_record_with_signs_that_copy_gives_a_meaning(engine: Engine) -> None:
    odd = flow("odd", status="unfinished", fct_us=None, reason="a\\tb \\N \\. None", label="\\N")
    add_flows(engine, [odd])
    assert flow_store.all_flows(engine) == [odd]
    assert add_flows(engine, [odd]) == 0


def test_forget__whole_partitions_and_at_most_one_more_than_asked_stays(engine: Engine) -> None:
    add_flows(engine, batch(35))
    assert forget_flows(engine, 9, rows=1000) == 0
    assert forget_flows(engine, 19, rows=1000) == 10
    assert kept(engine) == list(range(10, 35))
    assert forget_flows(engine, 1000, rows=1000) == 20
    assert kept(engine) == list(range(30, 35)), "the partition of the newest record stays"
    assert number_of_ids(engine) == 5
    assert add_flows(engine, [flow(7), flow(32)]) == 1, "a forgotten record is new, and a kept one is not"
    assert sum(total.value for total in all_totals(engine)[FLOWS.name]) == 36


def test_forget__goes_on_where_a_process_ended_and_ids_are_known_until_then(engine: Engine) -> None:
    add_flows(engine, batch(25))
    assert forget_flows(engine, 10, rows=4) == 4
    assert kept(engine) == list(range(10, 25)), "the records go at once, and their ids some at a time"
    assert number_of_ids(engine) == 21
    assert add_flows(engine, [flow(1), flow(8)]) == 1, (
        "the id of the first is gone, and that of the second is not"
    )
    again = open_store(engine.url.render_as_string(hide_password=False))
    assert forget_flows(again, 10, rows=1000) == 6
    again.dispose()
    assert kept(engine) == [*range(10, 25), 1]
    assert add_flows(engine, [flow(1), flow(8)]) == 1
    assert "flows_before_11" not in parts(engine)
    with engine.connect() as connection:
        assert connection.execute(select(detached_flows)).all() == []


def test_forget__a_reader_keeps_its_records_and_delays_no_writer(engine: Engine) -> None:
    add_flows(engine, batch(25))
    with engine.connect() as reader:
        rows = reader.execution_options(yield_per=1).execute(select(flows.c.id).order_by(flows.c.sequence))
        first = next(rows)
        assert forget_flows(engine, 20, rows=1000) == 0
        assert add_flows(engine, batch(10, first=25)) == 10
        assert [int(row.id) for row in (first, *rows)] == list(range(25))
    assert forget_flows(engine, 20, rows=1000) == 20
    assert kept(engine) == list(range(20, 35))


def test_forget__of_several_processes_one_removes_each_record(engine: Engine) -> None:
    add_flows(engine, batch(105))
    with ThreadPoolExecutor(4) as pool:
        while sum(pool.map(lambda _: forget_flows(engine, 100, rows=7), range(4))):
            pass
    assert kept(engine) == list(range(100, 105))
    assert number_of_ids(engine) == 5


WRITER = f"""
import itertools, sys
from sluice.store import partitions
partitions.PARTITION_RECORDS = {SIZE}
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, last_sequence
from tests.pg.records import batch
engine = open_store(sys.argv[1], fsync=True)
for first in itertools.count(int(sys.argv[2]), 7):
    add_flows(engine, batch(7, first))
    print(first + 6, flush=True)
    partitions.forget_flows(engine, last_sequence(engine) - 50, rows=9)
"""


def test_kill_9_while_partitions_come_and_go__nothing_accepted_is_lost_or_doubled(
    database: str, engine: Engine
) -> None:
    accepted = -1
    for lines in (5, 23):
        argv = [sys.executable, "-c", WRITER, database, str(max(0, accepted - 20))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(lines):
                accepted = max(accepted, int(writer.stdout.readline()))
            writer.kill()
            accepted = max([accepted, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        found = kept(engine)
        assert len(found) == len(set(found))
        assert set(range(max(0, accepted - 30), accepted + 1)) <= set(found)
        with engine.connect() as connection:
            lacking = (
                select(func.count())
                .select_from(flows)
                .where(
                    ~select(flow_ids)
                    .where(flow_ids.c.id == flows.c.id, flow_ids.c.sequence == flows.c.sequence)
                    .exists()
                )
            )
            assert connection.execute(lacking).scalar() == 0
    while forget_flows(engine, flow_store.last_sequence(engine) - 50, rows=1000):
        pass
    assert number_of_ids(engine) == flow_store.count_flows(engine)


# ── The table of an earlier version ────────────────────────────────────────────────────────────────────────────────


def make_plain(engine: Engine, records: int) -> None:
    """Turn a new store into one of the version before, whose table of flows has no partitions."""
    with engine.begin() as connection:
        for table in (flows, *postgresql_only.sorted_tables):
            connection.execute(text(f"DROP TABLE {table.name}"))
        plain = str(CreateTable(flows).compile(engine)).partition("PARTITION BY")[0]
        connection.execute(text(plain))
        connection.execute(text("ALTER TABLE flows ADD UNIQUE (id)"))
        for index in flows.indexes:
            connection.execute(CreateIndex(index))
        for one in batch(records):
            connection.execute(flows.insert().values(**vars(one), received_at=1e9))


def test_migration__keeps_the_records_in_their_order_and_their_ids_unique(
    engine: Engine, database: str
) -> None:
    make_plain(engine, 25)
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(open_store, [database] * 4))
    assert kept(engine) == list(range(25))
    assert add_flows(opened[0], batch(5, first=23)) == 3
    assert flow_store.last_sequence(engine) == 30 - 2 + 2, "two numbers were for known records"
    assert kept(engine) == list(range(28))
    add_flows(engine, batch(10, first=28))
    assert forget_flows(engine, 25, rows=1000) == 25
    assert kept(engine) == list(range(25, 38))
    for one in opened:
        one.dispose()


def test_migration__that_fails_changes_nothing_and_the_next_one_succeeds(
    engine: Engine, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_plain(engine, 3)
    with monkeypatch.context() as patch:
        patch.setattr(partitions, "attach", fail)
        with pytest.raises(ConnectionError):
            open_store(database)
    with engine.connect() as connection:
        assert not partitions.is_partitioned(connection)
    assert kept(engine) == [0, 1, 2]
    open_store(database).dispose()
    assert kept(engine) == [0, 1, 2]
    assert add_flows(engine, batch(4)) == 1


def fail(*_: object) -> None:
    raise ConnectionError


def test_migration__an_empty_table(engine: Engine, database: str) -> None:
    make_plain(engine, 0)
    open_store(database).dispose()
    assert add_flows(engine, batch(12)) == 12
    assert kept(engine) == list(range(12))


# ── Plans of queries ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def queries_of(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """Collect the SELECTs that are executed meanwhile, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith("SELECT"):
            found.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


def test_the_newest_records_are_found_by_an_index_in_every_partition(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "PARTITION_RECORDS", 1000)
    engine = engine_of(database)
    open_store(database).dispose()
    for first in range(0, 6000, 2000):
        add_flows(engine, batch(2000, first))
    with engine.begin() as connection:
        connection.execute(text("ANALYZE flows"))
    with queries_of(engine) as queries:
        assert len(find_flows(engine, {}, limit=50).rows) == 50
        assert len(flow_store.newest_flows(engine, 0.0, "scheduled", 50)) == 50
        flow_store.last_sequence(engine)
    assert len(queries) >= 5
    with engine.connect() as connection:
        for statement, parameters in queries:
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
            assert not [line for line in plan if "Seq Scan" in line], "\n".join((statement, *plan))
            assert [line for line in plan if "Index" in line]
    engine.dispose()
