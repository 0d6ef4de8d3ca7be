# SPDX-License-Identifier: Apache-2.0
"""Flow records and stores: records kept, the cost of fsync.

Records go into PostgreSQL at a fixed rate, beside the same rate into a plain table. One writer adds the batches that
agents deliver, one after the other. A batch's latency counts from the moment when it was due. The two ways take turns,
so the machine's other work disturbs both. The plain table is the simplest that keeps the promises: a unique constraint
on the id, and one INSERT … ON CONFLICT.
"""

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine, func, select, text

from experiments.bench.measuring import (
    Result,
    cpu_seconds,
    median_ratio,
    median_s,
    percentiles,
    seconds_of,
    wait_for,
)
from sluice.hostagent.reporter import DELIVERY_S
from sluice.hostagent.spool import Spool
from sluice.policy.errors import SluiceError
from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.postgres import PostgresServer
from sluice.store.connections import one_after_another
from sluice.store.engine import open_store
from sluice.store.flows import add_batch, add_flows, count_records
from sluice.store.partitions import PARTITION_RECORDS, forget_flows
from sluice.store.retention import STEP_ROWS_POSTGRESQL
from sluice.store.totals import Tally, add_totals

STORES = ("sqlite", "postgresql")
LOG_SEGMENTS = 25
"""Files of 16 MB that the server's write-ahead log has before a measurement. A minute of flow records fills fewer."""


DEFAULTS: Mapping[str, str] = {}
SERVERS = {
    "defaults": DEFAULTS,
    "recommended": {
        "min_wal_size": "1GB",
        "max_wal_size": "4GB",
        "wal_buffers": "64MB",
        "checkpoint_timeout": "15min",
    },
}
"""Settings of PostgreSQL. docs/how-to/keep-a-store.md recommends the second ones."""


@contextmanager
def store_url(store: str, folder: Path, server: Mapping[str, str] = DEFAULTS) -> Iterator[str]:
    """Yield the URL of an empty store of one of STORES. `server`: the settings of PostgreSQL."""
    if store == "sqlite":
        yield f"sqlite:///{folder}/store.db"
        return
    with PostgresServer.start(settings=server) as running:
        # The server makes files of its write-ahead log, which it then reuses, as after some minutes of work. It fills
        # a new file with zeros first, and commits wait for that.
        running.sql(
            "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal() "
            f"FROM generate_series(1, {LOG_SEGMENTS})"
        )
        running.sql("CHECKPOINT")
        os.sync()  # the new cluster was not written to the device yet
        yield running.new_database()


_RECORD = FlowRecord(
    "b/0", "h1", "h2", 10_000, "small", 1.0, 2e3, 1e3, None, None, 0, "cubic", "tcp", "finished"
)
RATE_PER_S = 10_000
BATCH = 250
"""Records that an agent gathers in half a second, if 20 agents have the rate."""
ROUNDS, ROUND_S = 5, 8.0
_NAMES = ", ".join(field.name for field in entries(FlowRecord))
_PLAIN = (
    "CREATE TABLE plain (LIKE flows INCLUDING DEFAULTS)",
    "ALTER TABLE plain ADD PRIMARY KEY (sequence), ADD UNIQUE (id)",
    "CREATE INDEX ON plain (source, received_at)",
)
_INSERT = text(
    f"INSERT INTO plain ({_NAMES}, received_at) SELECT {_NAMES}, :received_at "
    "FROM json_populate_recordset(NULL::plain, CAST(:records AS json)) ON CONFLICT DO NOTHING"
)
_DELETE = text(
    "DELETE FROM plain WHERE sequence IN "
    "(SELECT sequence FROM plain WHERE sequence <= :last ORDER BY sequence LIMIT :rows)"
)
Batch = Sequence[FlowRecord]


class Writing(NamedTuple):
    """What a way of writing achieved."""

    per_s: float
    server_us: float
    """CPU time of the server for each record."""
    p50_ms: float
    p99_ms: float


WRITTEN = (
    ("", "records/s"),
    (", CPU of the server", "us/record"),
    (", a batch, p50", "ms"),
    (", a batch, p99", "ms"),
)
"""For each figure of Writing the end of its name, and its unit."""


def record_results() -> Iterator[Result]:
    """Flow records into PostgreSQL beside a plain table, in turns. Then the oldest records of both are removed."""
    with PostgresServer.start() as server:
        partitioned, plain = open_store(server.new_database()), open_store(server.new_database())
        with plain.begin() as connection:
            for statement in _PLAIN:
                connection.execute(text(statement))
        ways: Mapping[Engine, Callable[[Engine, Batch], object]] = {
            partitioned: add_batch,
            plain: _into_plain,
        }
        rounds: dict[Engine, list[Writing]] = {engine: [] for engine in ways}
        for number in range(ROUNDS):
            for engine, write in ways.items():
                rounds[engine].append(_paced(partial(write, engine), _backend(engine), number))
        forget_ours = partial(forget_flows, partitioned, PARTITION_RECORDS, STEP_ROWS_POSTGRESQL)
        removals_s = [_seconds_to_remove(step) for step in (forget_ours, partial(_forget_plain, plain))]
        partitioned.dispose()
        plain.dispose()
    of_ours, of_plain = (list(zip(*rounds[engine], strict=True)) for engine in (partitioned, plain))
    for (end, unit), ours, theirs in zip(WRITTEN, of_ours, of_plain, strict=True):
        paired = median_ratio(ours, theirs) if end.endswith("p99") else None
        medians = statistics.median(ours), unit, statistics.median(theirs)
        yield Result(f"flow records into PostgreSQL{end}", *medians, "a plain table", paired)
    yield Result("100,000 of them removed", removals_s[0], "s", removals_s[1], "a plain table")


def _seconds_to_remove(step: Callable[[], int]) -> float:
    """Return how long it takes to repeat a step until it has removed PARTITION_RECORDS."""
    began, removed = time.perf_counter(), 0
    while removed < PARTITION_RECORDS:
        step_removed = step()
        if not step_removed:
            raise SluiceError(f"only {removed} records could be removed")
        removed += step_removed
    return time.perf_counter() - began


def _forget_plain(engine: Engine) -> int:
    with engine.begin() as connection:
        return connection.execute(_DELETE, {"rows": STEP_ROWS_POSTGRESQL, "last": PARTITION_RECORDS}).rowcount


def _backend(engine: Engine) -> int:
    """Return the process of the server that serves this engine's connection: the pool gives the same one again."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.pg_backend_pid())).scalar_one())


def _paced(write: Callable[[Batch], object], backend: int, run: int) -> Writing:
    """Write batches at the rate for ROUND_S."""
    count = round(ROUND_S * RATE_PER_S / BATCH)
    batches = [
        [replace(_RECORD, id=f"{run}/{n}/{i}", bytes=1000 + i) for i in range(BATCH)] for n in range(count)
    ]
    took_ms: list[float] = []
    cpu_s, began = cpu_seconds(backend), time.monotonic()
    for number, batch in enumerate(batches):
        due = began + number * BATCH / RATE_PER_S
        wait_for(due)
        write(batch)
        took_ms.append(1000 * (time.monotonic() - due))
    per_s = count * BATCH / (time.monotonic() - began)
    server_us = (cpu_seconds(backend) - cpu_s) / count / BATCH * 1e6
    return Writing(per_s, server_us, *percentiles(took_ms, 50, 99))


def _into_plain(engine: Engine, records: Batch) -> None:
    document = json.dumps([record.to_document() for record in records])
    with engine.begin() as connection:
        one_after_another(connection, "plain")
        connection.execute(_INSERT, {"records": document, "received_at": time.time()})
        tally = Tally()
        count_records(tally, records)
        add_totals(connection, tally.take())


def store_results() -> Iterator[Result]:
    """Flow records into SQLite, in batches of the size that agents deliver."""

    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(f"sqlite:///{folder}/store.db")
        batches = iter(range(0, 10**9, DELIVERY))

        def ingest() -> None:
            for _ in range(20):
                base = next(batches)
                add_flows(engine, [replace(_RECORD, id=f"b/{base + i}") for i in range(DELIVERY)])

        yield Result("flow records kept", 20 * DELIVERY / median_s(ingest), "records/s")
        engine.dispose()


# ── The cost of fsync ────────────────────────────────────────────────────────────────────────────────


DELIVERY = 200
DELIVERIES = 200
RECORDS_PER_S = 500
SPOOL_S = 6.0
DEVICE_S = 10.0
WRITE_BYTES, WRITES_PER_S = 200_000, 40


def durability_results() -> Iterator[Result]:
    """Deliveries into SQLite and records into a spool, written to the device or not, on the disk of temporary files."""
    for name, took in (
        (f"a delivery of {DELIVERY} records into SQLite", _store_times),
        ("a record into a spool, synced twice a second", _spool_times),
    ):
        synced, unsynced = (percentiles(took(fsync), 50, 99) for fsync in (True, False))
        for what, with_fsync_s, without_s in zip(("median", "p99"), synced, unsynced, strict=True):
            yield Result(f"{name}, {what}", 1e6 * with_fsync_s, "us", 1e6 * without_s, "without fsync")


def measure_device() -> dict[str, float]:
    """Return how many ms a write of WRITE_BYTES takes, as PostgreSQL's log writes for a delivery: into a file that has
    its length already, WRITES_PER_S a second."""
    took_ms: list[float] = []
    writes = round(DEVICE_S * WRITES_PER_S)
    with tempfile.TemporaryFile(prefix="sluice-bench-") as file:
        file.write(bytes(WRITE_BYTES * writes))
        os.fsync(file.fileno())
        began = time.monotonic()
        for number in range(writes):
            wait_for(began + number / WRITES_PER_S)
            at = time.perf_counter()
            os.pwrite(file.fileno(), os.urandom(WRITE_BYTES), number * WRITE_BYTES)
            os.fdatasync(file.fileno())
            took_ms.append((time.perf_counter() - at) * 1000)
    return dict(zip(("p50", "p99", "longest"), percentiles(took_ms, 50, 99, 100), strict=True))


def _store_times(fsync: bool) -> list[float]:
    """Return the seconds of each delivery of DELIVERY records into an SQLite store."""
    took_s = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db", fsync=fsync)
        for number in range(DELIVERIES):
            delivery = [replace(_RECORD, id=f"b/{number}/{i}") for i in range(DELIVERY)]
            took_s.append(seconds_of(partial(add_flows, engine, delivery)))
        engine.dispose()
    return took_s


def _spool_times(fsync: bool) -> list[float]:
    """Return what the traffic's thread pays for a record, while another thread syncs the spool as the reporter does."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        spool = Spool(Path(folder), fsync=fsync)
        ended = threading.Event()

        def sync() -> None:
            while not ended.wait(DELIVERY_S):
                spool.sync()

        syncing = threading.Thread(target=sync)
        syncing.start()
        took_s, began = [], time.monotonic()
        for number in range(round(SPOOL_S * RECORDS_PER_S)):
            took_s.append(seconds_of(partial(spool.append, replace(_RECORD, id=f"b/{number}"))))
            wait_for(began + number / RECORDS_PER_S)
        ended.set()
        syncing.join()
        spool.close()
    return took_s
