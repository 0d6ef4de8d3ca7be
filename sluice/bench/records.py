# SPDX-License-Identifier: Apache-2.0
"""Flow records into PostgreSQL at a fixed rate, beside the same rate into a plain table.

    sluice bench --only records

One writer adds the batches that agents deliver, one after the other. A batch's latency counts from the moment when it
was due. The two ways take turns, so the machine's other work disturbs both.

The plain table is the simplest that keeps the promises: a unique constraint on the id, and one INSERT … ON CONFLICT.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial

import numpy as np
from sqlalchemy import Engine, func, select, text

from sluice.bench.control import cpu_seconds
from sluice.policy.errors import SluiceError
from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.postgres import PostgresServer
from sluice.store.connections import one_after_another
from sluice.store.engine import open_store
from sluice.store.flows import add_batch, count_records
from sluice.store.partitions import PARTITION_RECORDS, forget_flows
from sluice.store.retention import STEP_ROWS_POSTGRESQL
from sluice.store.totals import Tally, add_totals

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
        forgotten_s = _timed(partial(forget_flows, partitioned, PARTITION_RECORDS, STEP_ROWS_POSTGRESQL))
        plain_forgotten_s = _timed(partial(_forget_plain, plain))
        partitioned.dispose()
        plain.dispose()
    new, old = rounds.values()
    ratio = statistics.median(a.p99_ms / b.p99_ms for a, b in zip(new, old, strict=True))
    return Compared(_median(new), _median(old), ratio, forgotten_s, plain_forgotten_s)


def _timed(step: Callable[[], int]) -> float:
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
