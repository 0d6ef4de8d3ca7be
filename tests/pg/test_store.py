# SPDX-License-Identifier: Apache-2.0
"""Behaviour that only a real server shows: parallel writers, restarts, crashes.

The store's other tests, tests/unit/store, run on both stores.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sluice.policy.wire.records import FlowRecord
from sluice.runtime.postgres import PostgresServer
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flow_queries import flow_columns_after
from sluice.store.flows import add_flows, all_flows, count_flows
from sluice.store.observed import add_event, events_after
from sluice.store.totals import FLOWS, all_totals
from tests.pg.records import flow

pytestmark = pytest.mark.pg

PATIENCE_S = 300.0
EVENTS = 100
WRITERS, BATCHES, BATCH = 6, 25, 10
ONE = flow("one")


def batch_of(writer: int, number: int) -> list[FlowRecord]:
    return [replace(ONE, id=f"{writer}.{number}.{i}") for i in range(BATCH)]


EVERYTHING = {f"{w}.{b}.{i}" for w in range(WRITERS) for b in range(BATCHES) for i in range(BATCH)}


def write_all(engine: Engine, *, until: float | None = None) -> tuple[ThreadPoolExecutor, list[Future[None]]]:
    """Start a thread for each writer, which writes its batches.

    `until`: a writer repeats a batch that the server refuses until this time (monotonic, s).
    """

    def write(writer: int) -> None:
        for number in range(BATCHES):
            while True:
                try:
                    add_flows(engine, batch_of(writer, number))
                    break
                except OperationalError:
                    if until is None or time.monotonic() > until:
                        raise

    pool = ThreadPoolExecutor(WRITERS)
    return pool, [pool.submit(write, writer) for writer in range(WRITERS)]


def test_writers_side_by_side__a_reader_that_goes_on_from_the_last_number_misses_nothing(
    engine: Engine,
) -> None:
    pool, writes = write_all(engine)
    seen, last = 0, 0
    while not all(write.done() for write in writes):
        columns, last = flow_columns_after(engine, last, 0.0)
        seen += len(columns)
    seen += len(flow_columns_after(engine, last, 0.0)[0])
    pool.shutdown()
    for write in writes:
        write.result()
    assert seen == len(EVERYTHING) == count_flows(engine)


def test_events_of_writers_side_by_side_are_all_seen(engine: Engine) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        writes = [pool.submit(add_event, engine, "tick", number=number) for number in range(EVENTS)]
        seen: list[int] = []
        last, done = 0, False
        while not done:
            done = all(write.done() for write in writes)
            rows = events_after(engine, last)
            seen += [row["document"]["number"] for row in rows]
            last = rows[-1]["id"] if rows else last
    assert sorted(seen) == list(range(EVENTS))


@pytest.mark.parametrize("crash", [False, True], ids=["restart", "crash"])
def test_a_server_that_goes_and_comes_back_loses_and_doubles_nothing(
    postgres: PostgresServer, engine: Engine, crash: bool
) -> None:
    pool, writes = write_all(engine, until=time.monotonic() + PATIENCE_S)

    def half_way() -> bool:
        return count_flows(engine) > len(EVERYTHING) / 4

    wait_until(half_way, "a quarter of the records is there", timeout_s=PATIENCE_S)
    postgres.restart(crash=crash)
    assert not all(write.done() for write in writes), "the writers were done before the restart"
    pool.shutdown()
    for write in writes:
        write.result()
    kept = [flow.id for flow in all_flows(engine)]
    assert len(kept) == len(set(kept))
    assert set(kept) == EVERYTHING
    assert sum(total.value for total in all_totals(engine)[FLOWS.name]) == len(EVERYTHING)


def test_open_store__a_server_that_is_away_is_an_operational_error(postgres: PostgresServer) -> None:
    with pytest.raises(OperationalError):
        open_store(f"postgresql+psycopg://sluice@/nothing?host={postgres.folder}&port=5433")
