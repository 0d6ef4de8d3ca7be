# SPDX-License-Identifier: Apache-2.0
"""How long a page of the flow list takes in a store with many records.

    python -m sluice.bench.flow_pages --records 1000000

The last filter matches no record, so its page looks at as many records as a page may.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rich.table import Table
from sqlalchemy import Engine

from sluice.policy.wire.records import FlowRecord
from sluice.store.engine import open_store
from sluice.store.flow_list import find_flows, sent_flows
from sluice.store.flows import add_flows
from sluice.terminal import console

BATCH, HOSTS, ROUNDS = 5_000, 32, 21
FILTERS: tuple[Mapping[str, str], ...] = ({}, {"host": "h9"}, {"status": "unfinished"}, {"label": "none"})
_RECORD = FlowRecord(
    "b/0", "h1", "h2", 10_000, "small", 1.0, 2e3, 1e3, None, None, 0, "cubic", "tcp", "finished"
)


def fill(engine: Engine, records: int) -> None:
    """Add records between HOSTS hosts, of which one in a thousand is unfinished."""
    for first in range(0, records, BATCH):
        add_flows(engine, [_record(number) for number in range(first, min(records, first + BATCH))])


def _record(number: int) -> FlowRecord:
    src, dst = number % HOSTS, (number * 7 + 1) % HOSTS
    made = replace(_RECORD, id=f"b/{number}", src=f"h{src + 1}", dst=f"h{dst + 1}")
    return made if number % 1000 else replace(made, fct_us=None, status="unfinished")


def measure(engine: Engine) -> dict[str, list[float]]:
    """Return the milliseconds of ROUNDS pages of each filter, and of a host's figures, in order."""
    asked: dict[str, Callable[[], object]] = {
        str(dict(one)): partial(find_flows, engine, one) for one in FILTERS
    }
    asked["figures of a host"] = partial(sent_flows, engine, "h9", time.time() - 3600)
    took: dict[str, list[float]] = {}
    for name, call in asked.items():
        for _ in range(ROUNDS):
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
        for name, took in measure(engine).items():
            table.add_row(name, f"{statistics.median(took):.1f}", f"{took[-1]:.1f}")
        engine.dispose()
    console.print(table)


if __name__ == "__main__":
    main()
