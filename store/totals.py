# SPDX-License-Identifier: Apache-2.0
"""What has been counted since the store was made: counters and histograms that survive every process.

Processes add to them, each in its own transactions (`Tally`, `add_totals`); whoever shows them reads all. A value only
grows, also when a process starts anew, several web workers count, a standby controller takes over, or old rows are
pruned: what Prometheus wants of a counter. A row is one number: of a counter its value; of a histogram the number of
observations in one bucket (not cumulative), or their sum.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from sqlalchemy import Connection, Engine, select, text

from store.bulk import insert_rows
from store.schema import totals

VALUE, SUM = "", "sum"


@dataclass(frozen=True)
class Metric:
    """One family of numbers. Units are in the name, as Prometheus wants it: seconds and bytes."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, without infinity; a counter has none."""


FLOW_SECONDS = Metric(
    "sluice_flow_completion_seconds",
    "Completion time of finished scheduled flows",
    ("scheme", "size_class"),
    (5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
FLOWS = Metric("sluice_flows", "Flow records kept", ("source", "scheme", "status"))
DEADLINE_FLOWS = Metric("sluice_deadline_flows", "Scheduled flows with a deadline", ("scheme", "met"))
RETRANSMISSIONS = Metric("sluice_flow_retransmissions", "Segments sent again by scheduled flows", ("scheme",))
FLOW_BYTES = Metric("sluice_flow_bytes", "Payload of scheduled flows", ("scheme",))
INGESTION_SECONDS = Metric(
    "sluice_ingestion_seconds",
    "Time from an accepted request with flow records to the end of its transaction",
    (),
    (1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
RECORDS_KNOWN = Metric("sluice_records_known", "Flow records that had been delivered before")
REQUESTS_REFUSED = Metric(
    "sluice_ingestion_refused", "Requests with flow records that were refused", ("status",)
)
LOOP_SECONDS = Metric(
    "sluice_controller_loop_seconds",
    "From a poll of a switch's counters to the queue-mapping rules that follow from them",
    (),
    (1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
ENTRIES_DECODED = Metric("sluice_controller_entries", "Flow statistics entries decoded")
RULES_CHANGED = Metric("sluice_controller_rules_changed", "OpenFlow rules added, modified or deleted")
SWITCH_CONNECTS = Metric("sluice_controller_connects", "Connections of switches taken up", ("switch",))
HOSTS_DEMOTED = Metric("sluice_hosts_demoted", "Hosts demoted because their tags were not true", ("host",))

METRICS = (
    FLOW_SECONDS,
    FLOWS,
    DEADLINE_FLOWS,
    RETRANSMISSIONS,
    FLOW_BYTES,
    INGESTION_SECONDS,
    RECORDS_KNOWN,
    REQUESTS_REFUSED,
    LOOP_SECONDS,
    ENTRIES_DECODED,
    RULES_CHANGED,
    SWITCH_CONNECTS,
    HOSTS_DEMOTED,
)

Key = tuple[str, str, str]

_COLUMNS = ("metric", "labels", "part", "value")
_GROWS = "(metric, labels, part) DO UPDATE SET value = totals.value + excluded.value"
_ADD_COLUMNS = text(
    "INSERT INTO totals SELECT * FROM unnest(CAST(:metric AS text[]), CAST(:labels AS text[]), "
    f"CAST(:part AS text[]), CAST(:value AS float8[])) ON CONFLICT {_GROWS}"
)


class Tally:
    """What a process has counted and not yet added to the store. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Key] = Counter()

    def count(self, metric: Metric, by: float = 1, **labels: str) -> None:
        with self._lock:
            self._counts[metric.name, _label_text(metric, labels), VALUE] += by  # type: ignore[assignment]

    def observe(self, metric: Metric, values: Iterable[float], **labels: str) -> None:
        """Put every value into its bucket: the first whose bound is not below it."""
        label_text = _label_text(metric, labels)
        bounds = (*metric.buckets, inf)
        found: Counter[int] = Counter()
        total = 0.0
        for value in values:
            found[bisect_left(metric.buckets, value)] += 1
            total += value
        with self._lock:
            for place, count in found.items():
                self._counts[metric.name, label_text, bound_text(bounds[place])] += count
            self._counts[metric.name, label_text, SUM] += total  # type: ignore[assignment]

    def take(self) -> dict[Key, float]:
        """All of it; the tally is empty then."""
        with self._lock:
            taken, self._counts = self._counts, Counter()
        return dict(taken)

    def put_back(self, counts: Mapping[Key, float]) -> None:
        """What was taken and could not be added to the store."""
        with self._lock:
            for key, value in counts.items():
                self._counts[key] += value  # type: ignore[assignment]


def bound_text(bound: float) -> str:
    """A bucket's bound as Prometheus writes it."""
    return "+Inf" if bound == inf else repr(float(bound))


def _label_text(metric: Metric, labels: Mapping[str, str]) -> str:
    if set(labels) != set(metric.labels):
        raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
    return json.dumps([labels[name] for name in metric.labels], separators=(",", ":"))


def add_totals(connection: Connection, counts: Mapping[Key, float]) -> None:
    """Add what a tally has taken, in the caller's transaction; zeros, too, so that a series begins before it grows."""
    # In one order, whoever writes: two transactions that want the same rows cannot wait for each other.
    rows = [(*key, float(value)) for key, value in sorted(counts.items())]
    if connection.dialect.name == "postgresql":
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 4
        connection.execute(_ADD_COLUMNS, dict(zip(_COLUMNS, columns, strict=True)))
    else:
        insert_rows(connection, "totals", rows, _GROWS)


def add_counts(engine: Engine, counts: Mapping[Key, float]) -> None:
    """Add what a tally has taken, in a transaction of its own."""
    if counts:
        with engine.begin() as connection:
            add_totals(connection, counts)


def flush(engine: Engine, tally: Tally) -> None:
    """Move what the tally holds into the store; it keeps it when the store does not take it."""
    counts = tally.take()
    try:
        add_counts(engine, counts)
    except BaseException:
        tally.put_back(counts)
        raise


@dataclass(frozen=True)
class Total:
    """One set of labels of one metric: a counter's `value`, or a histogram's buckets by their bounds and `sum`."""

    labels: tuple[str, ...]
    value: float
    buckets: Mapping[str, float]
    sum: float


def all_totals(engine: Engine) -> dict[str, list[Total]]:
    """By metric."""
    with engine.connect() as connection:
        rows = connection.execute(select(totals)).all()
    grouped: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        grouped.setdefault((row.metric, row.labels), {})[row.part] = row.value
    found: dict[str, list[Total]] = {}
    for (metric, labels), parts in sorted(grouped.items()):
        found.setdefault(metric, []).append(_total(json.loads(labels), parts))
    return found


def _total(labels: Any, parts: dict[str, float]) -> Total:
    value, total = parts.pop(VALUE, 0.0), parts.pop(SUM, 0.0)
    return Total(tuple(labels), value, parts, total)
