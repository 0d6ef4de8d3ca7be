# SPDX-License-Identifier: Apache-2.0
"""The stores of the benchmarks, and what it costs that a store and a spool wait for the device (fsync)."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from experiments.bench.measuring import Result, percentiles, seconds_of, wait_for
from sluice.hostagent.reporter import DELIVERY_S
from sluice.hostagent.spool import Spool
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.postgres import PostgresServer
from sluice.store.engine import open_store
from sluice.store.flows import add_flows

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
