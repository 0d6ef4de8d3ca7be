# SPDX-License-Identifier: Apache-2.0
"""Pages of flow records, newest first, in a time that does not grow with the store.

No index serves the filters, because each would slow down every delivery. A page looks at MOST_SEARCHED records
instead. The next page continues where it stopped, so rare records take several short answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, or_, select

from sluice.store.connections import reading
from sluice.store.schema import flows

FILTERS = ("scheme", "size_class", "status", "src", "dst", "met", "source", "label", "host")
"""What `find_flows` can match: columns, and `host`, which is either end."""
MOST_SEARCHED = 50_000
"""The most records that a page looks at."""


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


def newest_after(query: Select[Any], after: float, *sources: str) -> Select[Any]:
    """Return the query for records of these sources that arrived after a time, newest first."""
    # The order is the index's. Ordered by sequence, SQLite would scan the whole table for a few
    # rows.
    chosen = query.where(flows.c.received_at > after, flows.c.source.in_(sources))
    return chosen.order_by(flows.c.received_at.desc(), flows.c.sequence.desc())
