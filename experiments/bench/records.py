# SPDX-License-Identifier: Apache-2.0
"""Flow records and stores: records kept, the cost of fsync, pages of the flow list.

Records go into PostgreSQL at a fixed rate, beside the same rate into a plain table. One writer adds the batches that
agents deliver, one after the other. A batch's latency counts from the moment when it was due. The two ways take turns,
so the machine's other work disturbs both. The plain table is the simplest that keeps the promises: a unique constraint
on the id, and one INSERT … ON CONFLICT.

    python -m experiments.bench.records --records 1000000      # how long a page of the flow list takes

The last filter matches no record, so its page looks at as many records as a page may.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table
from sqlalchemy import Engine, func, select, text

from experiments.bench.control import cpu_seconds
from experiments.bench.measuring import Result, median_s
from sluice.hostagent.reporter import DELIVERY_S
from sluice.hostagent.spool import Spool
from sluice.policy.errors import SluiceError
from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.postgres import PostgresServer
from sluice.store.connections import one_after_another
from sluice.store.engine import open_store
from sluice.store.flow_queries import find_flows, sent_flows
from sluice.store.flows import add_batch, add_flows, count_records
from sluice.store.partitions import PARTITION_RECORDS, forget_flows
from sluice.store.retention import STEP_ROWS_POSTGRESQL
from sluice.store.totals import Tally, add_totals
from sluice.terminal import console

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


RATE_PER_S = 10_000
BATCH = 250
"""Records that an agent gathers in half a second, if 20 agents have the rate."""
ROUNDS, ROUND_S = 5, 8.0
_RECORD = FlowRecord(
    "b/0", "h1", "h2", 10_000, "small", 1.0, 2e3, 1e3, None, None, 0, "sluice_dctcp", "sluice", "finished"
)
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


@dataclass(frozen=True)
class Writing:
    """What a way of writing achieved, as medians of its rounds."""

    per_s: float
    p50_ms: float
    p99_ms: float
    server_us: float
    """CPU time of the server for each record."""


@dataclass(frozen=True)
class Compared:
    """The store's way beside the plain table."""

    store: Writing
    plain: Writing
    p99_ratio: float
    """The median over neighbouring rounds."""
    forgotten_s: float
    """How long the removal of the oldest PARTITION_RECORDS records took."""
    plain_forgotten_s: float


def measure_records() -> Compared:
    """Write to both in turns, then remove the oldest records of both."""
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
        forgotten_s = _seconds_to_remove(
            partial(forget_flows, partitioned, PARTITION_RECORDS, STEP_ROWS_POSTGRESQL)
        )
        plain_forgotten_s = _seconds_to_remove(partial(_forget_plain, plain))
        partitioned.dispose()
        plain.dispose()
    new, old = rounds.values()
    ratio = statistics.median(a.p99_ms / b.p99_ms for a, b in zip(new, old, strict=True))
    return Compared(_median(new), _median(old), ratio, forgotten_s, plain_forgotten_s)


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


def _median(rounds: Sequence[Writing]) -> Writing:
    return Writing(*(statistics.median(values) for values in zip(*map(astuple, rounds), strict=True)))


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
    every_s = BATCH / RATE_PER_S
    took_ms: list[float] = []
    cpu_s, began = cpu_seconds(backend), time.monotonic()
    for number, batch in enumerate(batches):
        due = began + number * every_s
        time.sleep(max(0.0, due - time.monotonic()))  # the fixed rate is the point
        write(batch)
        took_ms.append(1000 * (time.monotonic() - due))
    p50, p99 = np.percentile(took_ms, (50, 99))
    per_s = count * BATCH / (time.monotonic() - began)
    return Writing(per_s, float(p50), float(p99), (cpu_seconds(backend) - cpu_s) / count / BATCH * 1e6)


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
                add_flows(engine, [replace(_SMALL_RECORD, id=f"b/{base + i}") for i in range(DELIVERY)])

        yield Result("flow records kept", 20 * DELIVERY / median_s(ingest), "records/s")
        engine.dispose()


def record_results() -> Iterator[Result]:
    """Flow records into PostgreSQL beside a plain table."""
    compared = measure_records()
    new, old, what, plain = compared.store, compared.plain, "flow records into PostgreSQL", "a plain table"
    yield Result(what, new.per_s, "records/s", old.per_s, plain)
    yield Result(f"{what}, CPU of the server", new.server_us, "us/record", old.server_us, plain)
    yield Result(f"{what}, a batch, p50", new.p50_ms, "ms", old.p50_ms, plain)
    yield Result(f"{what}, a batch, p99", new.p99_ms, "ms", old.p99_ms, plain, compared.p99_ratio)
    yield Result("100,000 of them removed", compared.forgotten_s, "s", compared.plain_forgotten_s, plain)


def durability_results() -> Iterator[Result]:
    """Deliveries into SQLite and records into a spool, written to the device or not, on the disk of temporary files."""
    for name, synced, unsynced in (
        (f"a delivery of {DELIVERY} records into SQLite", measure_store(True), measure_store(False)),
        ("a record into a spool, synced twice a second", measure_spool(True), measure_spool(False)),
    ):
        yield Result(f"{name}, median", synced.p50_us, "us", unsynced.p50_us, "without fsync")
        yield Result(f"{name}, p99", synced.p99_us, "us", unsynced.p99_us, "without fsync")


# ── The cost of fsync ────────────────────────────────────────────────────────────────────────────────


DELIVERY = 200
DELIVERIES = 200
RECORDS_PER_S = 500
SPOOL_S = 6.0
DEVICE_S = 10.0
WRITE_BYTES, WRITES_PER_S = 200_000, 40
_SMALL_RECORD = FlowRecord(
    "b/0", "h1", "h2", 10_000, "small", 1.0, 2e3, 1e3, None, None, 0, "cubic", "tcp", "finished"
)


@dataclass(frozen=True)
class Cost:
    """How long a call took, in microseconds."""

    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Device:
    """How long a write to the device took, in milliseconds."""

    p50: float
    p99: float
    longest: float


def measure_device(seconds: float = DEVICE_S) -> Device:
    """Return the time of a write of WRITE_BYTES, as PostgreSQL's log writes for a delivery: into a file that has its
    length already, WRITES_PER_S a second."""
    took_ms: list[float] = []
    with tempfile.TemporaryFile(prefix="sluice-bench-") as file:
        file.write(bytes(WRITE_BYTES * round(seconds * WRITES_PER_S)))
        os.fsync(file.fileno())
        began = time.monotonic()
        for number in range(round(seconds * WRITES_PER_S)):
            time.sleep(
                max(0.0, began + number / WRITES_PER_S - time.monotonic())
            )  # the fixed rate is the point
            at = time.perf_counter()
            os.pwrite(file.fileno(), os.urandom(WRITE_BYTES), number * WRITE_BYTES)
            os.fdatasync(file.fileno())
            took_ms.append((time.perf_counter() - at) * 1000)
    p50, p99 = np.percentile(took_ms, (50, 99))
    return Device(float(p50), float(p99), max(took_ms))


def measure_store(fsync: bool) -> Cost:
    """Return the cost of a delivery of DELIVERY records into an SQLite store."""
    took = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db", fsync=fsync)
        for number in range(DELIVERIES):
            delivery = [replace(_SMALL_RECORD, id=f"b/{number}/{i}") for i in range(DELIVERY)]
            took.append(_seconds(partial(add_flows, engine, delivery)))
        engine.dispose()
    return _cost(took)


def measure_spool(fsync: bool) -> Cost:
    """Return what the traffic's thread pays for a record, while another thread syncs the spool as the reporter does."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        spool = Spool(Path(folder), fsync=fsync)
        ended = threading.Event()

        def sync() -> None:
            while not ended.wait(DELIVERY_S):
                spool.sync()

        syncing = threading.Thread(target=sync)
        syncing.start()
        took, begin = [], time.monotonic()
        for number in range(round(SPOOL_S * RECORDS_PER_S)):
            record = replace(_SMALL_RECORD, id=f"b/{number}")
            took.append(_seconds(partial(spool.append, record)))
            time.sleep(max(0.0, begin + number / RECORDS_PER_S - time.monotonic()))  # at a fixed rate
        ended.set()
        syncing.join()
        spool.close()
    return _cost(took)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _cost(took_s: list[float]) -> Cost:
    p50, p99 = np.percentile(took_s, (50, 99))
    return Cost(1e6 * float(p50), 1e6 * float(p99))


# ── Pages of the flow list ───────────────────────────────────────────────────────────────────────────


FILL, HOSTS, PAGES = 5_000, 32, 21
FILTERS: tuple[Mapping[str, str], ...] = ({}, {"host": "h9"}, {"status": "unfinished"}, {"label": "none"})


def fill(engine: Engine, records: int) -> None:
    """Add records between HOSTS hosts, of which one in a thousand is unfinished."""
    for first in range(0, records, FILL):
        batch = []
        for number in range(first, min(records, first + FILL)):
            src, dst = number % HOSTS, (number * 7 + 1) % HOSTS
            record = replace(_SMALL_RECORD, id=f"b/{number}", src=f"h{src + 1}", dst=f"h{dst + 1}")
            batch.append(record if number % 1000 else replace(record, fct_us=None, status="unfinished"))
        add_flows(engine, batch)


def measure_pages(engine: Engine) -> dict[str, list[float]]:
    """Return the milliseconds of PAGES pages of each filter, and of a host's figures, in order."""
    asked: dict[str, Callable[[], object]] = {
        str(dict(terms)): partial(find_flows, engine, terms) for terms in FILTERS
    }
    asked["figures of a host"] = partial(sent_flows, engine, "h9", time.time() - 3600)
    took: dict[str, list[float]] = {}
    for name, call in asked.items():
        for _ in range(PAGES):
            began = time.perf_counter()
            call()
            took.setdefault(name, []).append(1e3 * (time.perf_counter() - began))
        took[name].sort()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure pages of the flow list on SQLite.")
    parser.add_argument("--records", type=int, default=1_000_000, help="records in the store (%(default)s)")
    records = parser.parse_args().records
    table = Table("page", "median ms", "slowest ms", title=f"{records} records")
    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(f"sqlite:///{folder}/store.db")
        fill(engine, records)
        for name, took in measure_pages(engine).items():
            table.add_row(name, f"{statistics.median(took):.1f}", f"{took[-1]:.1f}")
        engine.dispose()
    console.print(table)


if __name__ == "__main__":
    main()
