# SPDX-License-Identifier: Apache-2.0
"""Counts since the store was made: counters and histograms that outlive every process.

Processes add to them, each in its own transactions (`Tally`, `add_totals`); /metrics reads the
sums. Prometheus requires that a counter only grows. These do: also when a process restarts,
several web workers count, a standby controller takes over, or old rows are deleted.

A row is one number: a counter's value, a histogram's observations in one bucket (not cumulative),
or their sum.
"""

import json
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from sqlalchemy import Connection, Engine, select, text

from sluice.policy.wire.records import SCHEDULED
from sluice.store.connections import insert_rows, reading
from sluice.store.schema import totals

VALUE, SUM = "", "sum"


@dataclass(frozen=True)
class Metric:
    """One family of numbers. Its name ends in the unit, as Prometheus requires: seconds and bytes."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, without infinity. A counter has none."""


FLOW_SECONDS = Metric(
    "sluice_flow_completion_seconds",
    "Completion time of finished flows",
    ("source", "scheme", "size_class"),
    (5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
FLOW_SLOWDOWN = Metric(
    "sluice_flow_slowdown",
    "Completion time over the time of the same flow alone in the network, where the network is known",
    ("source", "scheme", "size_class"),
    (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0),
)
FLOWS = Metric("sluice_flows", "Flow records kept", ("source", "scheme", "status"))
DEADLINE_FLOWS = Metric("sluice_deadline_flows", "Flows with a deadline", ("source", "scheme", "met"))
RETRANSMISSIONS = Metric(
    "sluice_flow_retransmissions", "Segments that flows retransmitted", ("source", "scheme")
)
FLOW_BYTES = Metric("sluice_flow_bytes", "Payload of flows", ("source", "scheme"))
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
SWITCH_CONNECTS = Metric("sluice_controller_connects", "Connections that switches opened", ("switch",))
HOSTS_DEMOTED = Metric("sluice_hosts_demoted", "Hosts demoted because they sent wrong tags", ("host",))

METRICS = (
    FLOW_SECONDS,
    FLOW_SLOWDOWN,
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

_LABELS = {metric.name: metric.labels for metric in METRICS}

Key = tuple[str, str, str]

_COLUMNS = ("metric", "labels", "part", "value")
_GROWS = "(metric, labels, part) DO UPDATE SET value = totals.value + excluded.value"
_ADD_COLUMNS = text(
    "INSERT INTO totals SELECT * FROM unnest(CAST(:metric AS text[]), CAST(:labels AS text[]), "
    f"CAST(:part AS text[]), CAST(:value AS float8[])) ON CONFLICT {_GROWS}"
)


class Tally:
    """What a process has counted but not yet added to the store. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Key] = Counter()

    def count(self, metric: Metric, by: float = 1, **labels: str) -> None:
        with self._lock:
            self._counts[metric.name, _label_text(metric, labels), VALUE] += by  # type: ignore[assignment]

    def observe(self, metric: Metric, values: Iterable[float], **labels: str) -> None:
        """Count every value in its bucket: the first whose bound is not below the value."""
        label_text = _label_text(metric, labels)
        bounds = (*metric.buckets, inf)
        in_bucket: Counter[int] = Counter()
        total = 0.0
        for value in values:
            in_bucket[bisect_left(metric.buckets, value)] += 1
            total += value
        with self._lock:
            for place, count in in_bucket.items():
                self._counts[metric.name, label_text, bound_text(bounds[place])] += count
            self._counts[metric.name, label_text, SUM] += total  # type: ignore[assignment]

    def take(self) -> dict[Key, float]:
        """Return all counts and empty the tally."""
        with self._lock:
            taken, self._counts = self._counts, Counter()
        return dict(taken)

    def put_back(self, counts: Mapping[Key, float]) -> None:
        """Add counts again that were taken and could not be stored."""
        with self._lock:
            for key, value in counts.items():
                self._counts[key] += value  # type: ignore[assignment]


def bound_text(bound: float) -> str:
    """Return a bucket's bound as Prometheus writes it."""
    return "+Inf" if bound == inf else repr(float(bound))


def _label_text(metric: Metric, labels: Mapping[str, str]) -> str:
    if set(labels) != set(metric.labels):
        raise ValueError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
    return json.dumps([labels[name] for name in metric.labels], separators=(",", ":"))


def add_totals(connection: Connection, counts: Mapping[Key, float]) -> None:
    """Add a tally's counts in the caller's transaction. Zeros count, too: so a series exists
    before it grows."""
    # Every writer takes the rows in one order, so two transactions cannot wait for each other.
    rows = [(*key, float(value)) for key, value in sorted(counts.items())]
    if connection.dialect.name == "postgresql":
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 4
        connection.execute(_ADD_COLUMNS, dict(zip(_COLUMNS, columns, strict=True)))
    else:
        insert_rows(connection, "totals", rows, _GROWS)


def add_counts(engine: Engine, counts: Mapping[Key, float]) -> None:
    """Add a tally's counts in a transaction of its own."""
    if counts:
        with engine.begin() as connection:
            add_totals(connection, counts)


def flush(engine: Engine, tally: Tally) -> None:
    """Move the tally's counts into the store. If the store fails, the tally keeps them."""
    counts = tally.take()
    try:
        add_counts(engine, counts)
    except BaseException:
        tally.put_back(counts)
        raise


@dataclass(frozen=True)
class Total:
    """One metric with one set of labels: a counter's `value`, or a histogram's `sum` and buckets
    by their bounds."""

    labels: tuple[str, ...]
    value: float
    buckets: Mapping[str, float]
    sum: float


def all_totals(engine: Engine) -> dict[str, list[Total]]:
    """Return the totals, by metric."""
    with reading(engine) as connection:
        rows = connection.execute(select(totals)).all()
    grouped: dict[tuple[str, tuple[str, ...]], dict[str, float]] = {}
    for row in rows:
        labels, names = tuple(json.loads(row.labels)), _LABELS.get(row.metric, ())
        if names[:1] == ("source",) and len(labels) < len(names):
            labels = SCHEDULED, *labels  # this row is of a version that counted only scheduled flows
        parts = grouped.setdefault((row.metric, labels), {})
        parts[row.part] = parts.get(row.part, 0.0) + row.value
    by_metric: dict[str, list[Total]] = {}
    for (metric, labels), parts in sorted(grouped.items()):
        value, total = parts.pop(VALUE, 0.0), parts.pop(SUM, 0.0)
        by_metric.setdefault(metric, []).append(Total(labels, value, parts, total))
    return by_metric
