# SPDX-License-Identifier: Apache-2.0
"""The newest flow records: pages of them, those of one host, their sizes, and their traffic. The time of a query does
not grow with the store.

No index serves the filters, because each would slow down every delivery. A page looks at MOST_SEARCHED records
instead. The next page continues where it stopped, so rare records take several short answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Engine, func, or_, select

from sluice.policy.thresholds.static import MeasuredFlows
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ALL, TRAFFIC
from sluice.store.connections import reading
from sluice.store.flow_columns import FIGURES, FlowColumns
from sluice.store.schema import flows

FILTERS = ("scheme", "size_class", "status", "src", "dst", "met", "source", "label", "host")
"""What `find_flows` can match: columns, and `host`, which is either end."""
MOST_SEARCHED = 50_000
"""The most records that a page looks at."""
NEWEST = 10_000
"""How many records the sizes of classes are taken from."""
MOST_FLOWS = 5_000
"""How many records a measurement reads: enough for the 99th percentile, and read within milliseconds."""


@dataclass(frozen=True)
class FlowPage:
    """Some records, and how far the search for them went."""

    rows: list[Mapping[str, Any]]
    """Records with their `sequence` and `received_at`, newest first."""
    next: int | None
    """The next page has the records before this sequence number. None: there are no older ones."""
    searched_to: float | None
    """When the oldest record that was looked at arrived, in epoch seconds. None: there was none."""


def find_flows(
    engine: Engine, matching: Mapping[str, Any], before: int | None = None, limit: int = 100
) -> FlowPage:
    """Return the newest records with a sequence number below `before`: at most `limit`, of MOST_SEARCHED at most.

    `matching` maps some of FILTERS to the values to match.
    """
    with reading(engine) as connection:
        first, last = sequence_ends(connection)
        top = last + 1 if before is None else min(before, last + 1)
        bottom = max(first, top - MOST_SEARCHED)
        query = select(flows).where(flows.c.sequence >= bottom, flows.c.sequence < top, *_wanted(matching))
        query = query.order_by(flows.c.sequence.desc()).limit(limit)
        rows: list[Mapping[str, Any]] = [dict(row._mapping) for row in connection.execute(query)]
        reached = rows[-1]["sequence"] if len(rows) == limit else min(bottom, top)
        searched_to = received_at(connection, reached) if first < top else None
    return FlowPage(rows, reached if reached > first else None, searched_to)


def sequence_ends(connection: Connection) -> tuple[int, int]:
    """Return the lowest and the highest sequence number; (1, 0) without records."""
    # SQLite answers both from the index only if each is a query of its own.
    lowest, highest = (select(end(flows.c.sequence)).scalar_subquery() for end in (func.min, func.max))
    first, last = connection.execute(select(lowest, highest)).one()
    return first or 1, last or 0


def _wanted(matching: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    return [_condition(name, value) for name, value in matching.items()]


def _condition(name: str, value: object) -> ColumnElement[bool]:
    if name == "host":
        return or_(flows.c.src == value, flows.c.dst == value)
    return flows.c[name] == value


def received_at(connection: Connection, sequence: int) -> float | None:
    """Return when the record with this sequence number, or the next one, arrived."""
    query = select(flows.c.received_at).where(flows.c.sequence >= sequence).order_by(flows.c.sequence)
    return connection.execute(query.limit(1)).scalar()


@dataclass(frozen=True)
class SentFlows:
    """The scheduled and watched flows of one sender whose records arrived after a time."""

    since: float
    """Epoch seconds. It is later than asked if more than MOST_SEARCHED records arrived after that time."""
    flows: FlowColumns
    srtt_us: NDArray[np.float64]
    """Smoothed round-trip times at the ends of those flows that have one."""
    controls: Mapping[str, int]
    """Number of flows by congestion control, the most frequent first."""


def sent_flows(engine: Engine, host: str, since: float) -> SentFlows:
    """Return the flows that this host sent, of the newest MOST_SEARCHED records."""
    columns = [flows.c[name] for name in FIGURES]
    query = select(*columns, flows.c.srtt_us, flows.c.congestion_control)
    query = query.where(flows.c.src == host, flows.c.received_at > since)
    with reading(engine) as connection:
        first, last = sequence_ends(connection)
        bottom = last - MOST_SEARCHED
        if bottom >= first:
            since = max(since, received_at(connection, bottom) or since)
        selected = connection.execute(query.where(flows.c.sequence > bottom).order_by(flows.c.sequence)).all()
    rows = [tuple(row) for row in selected if row.source in TRAFFIC[ALL]]
    return SentFlows(
        since,
        FlowColumns.from_rows([row[: len(FIGURES)] for row in rows]),
        np.array([row[-2] for row in rows if row[-2] is not None], dtype=np.float64),
        dict(Counter(row[-1] for row in rows).most_common()),
    )


@dataclass(frozen=True)
class ClassSizes:
    """The flows of one class."""

    n: int
    least_bytes: int
    most_bytes: int


def class_sizes(engine: Engine, traffic: str) -> dict[str, ClassSizes]:
    """Return the sizes by class among the newest records. `traffic` is a key of TRAFFIC. A class may be missing."""
    newest = select(flows.c.size_class, flows.c.bytes).where(flows.c.source.in_(TRAFFIC[traffic]))
    some = newest.order_by(flows.c.sequence.desc()).limit(NEWEST).subquery()
    size = some.c.bytes
    query = select(some.c.size_class, func.count(), func.min(size), func.max(size)).group_by(
        some.c.size_class
    )
    with reading(engine) as connection:
        return {name: ClassSizes(n, least, most) for name, n, least, most in connection.execute(query)}


def newest_traffic(engine: Engine) -> MeasuredFlows:
    """Return the newest flows, scheduled and watched. An unfinished flow ends when its record arrived."""
    names = ("bytes", "dst", "started_at", "fct_us", "received_at")
    query = select(*(flows.c[name] for name in names)).where(flows.c.source.in_(TRAFFIC[ALL]))
    with reading(engine) as connection:
        rows = connection.execute(query.order_by(flows.c.sequence.desc()).limit(MOST_FLOWS)).all()
    ended = [
        row.received_at if row.fct_us is None else row.started_at + row.fct_us / US_PER_S for row in rows
    ]
    return MeasuredFlows(
        np.asarray([row.bytes for row in rows], np.float64),
        [row.dst for row in rows],
        np.asarray([row.started_at for row in rows], np.float64),
        np.asarray(ended, np.float64),
    )
