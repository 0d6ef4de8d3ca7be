# SPDX-License-Identifier: Apache-2.0
"""The cost of `fsync`: of the device alone, a delivery into the store, and a record into an agent's spool."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from sluice.hostagent.reporter import DELIVERY_S
from sluice.hostagent.spool import Spool
from sluice.policy.wire.records import FlowRecord
from sluice.store.engine import open_store
from sluice.store.flows import add_flows

BATCH = 200
DELIVERIES = 200
RECORDS_PER_S = 500
SPOOL_S = 6.0
DEVICE_S = 10.0
WRITE_BYTES, WRITES_PER_S = 200_000, 40
_RECORD = FlowRecord(
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
    """Return the cost of a delivery of BATCH records into an SQLite store."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db", fsync=fsync)
        took = [_timed(partial(add_flows, engine, _batch(number))) for number in range(DELIVERIES)]
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
            record = replace(_RECORD, id=f"b/{number}")
            took.append(_timed(partial(spool.append, record)))
            time.sleep(max(0.0, begin + number / RECORDS_PER_S - time.monotonic()))  # at a fixed rate
        ended.set()
        syncing.join()
        spool.close()
    return _cost(took)


def _batch(number: int) -> list[FlowRecord]:
    return [replace(_RECORD, id=f"b/{number}/{i}") for i in range(BATCH)]


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _cost(took_s: list[float]) -> Cost:
    p50, p99 = np.percentile(took_s, (50, 99))
    return Cost(1e6 * float(p50), 1e6 * float(p99))
