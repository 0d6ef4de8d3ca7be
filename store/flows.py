# SPDX-License-Identifier: Apache-2.0
"""Flow records: delivered at least once, kept exactly once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, Select, func, select

from policy.records import SCHEDULED, FlowRecord
from store.desired import insert_for
from store.schema import flows

FILTERS = ("scheme", "size_class", "status", "src", "dst", "met", "source")
"""Columns that `find_flows` can be asked to match."""

_FIGURES = ("sequence", "received_at", "started_at", "fct_us", "size_class", "scheme", "met")
_COLUMNS = [flows.c[field.name] for field in fields(FlowRecord)]


def add_flows(engine: Engine, records: Sequence[FlowRecord]) -> int:
    """Keep the records that are new and return how many were; all of them or none reach the disk."""
    if not records:
        return 0
    received_at = time.time()
    rows = [{**record.to_document(), "received_at": received_at} for record in records]
    with engine.begin() as connection:
        return connection.execute(insert_for(connection, flows).on_conflict_do_nothing(), rows).rowcount


@dataclass(frozen=True)
class FlowColumns:
    """What figures over many flows are made of, one array a column: far cheaper than one record a flow.

    Scheduled flows only: figures tell how a scheme serves them.
    """

    at: NDArray[np.float64]
    """When the flow finished, by its own record; when its record came, for an unfinished one (epoch seconds)."""
    fct_us: NDArray[np.float64]
    """NaN where unfinished."""
    size_class: NDArray[np.str_]
    scheme: NDArray[np.str_]
    has_deadline: NDArray[np.bool_]
    missed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[Any, ...]]) -> FlowColumns:
        """Rows of the columns _FIGURES."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(_FIGURES)
        _, received, started, fct, size_class, scheme, met = columns
        fct_us = np.array(fct, dtype=np.float64)
        finished = np.array(started, dtype=np.float64) + fct_us / 1e6
        return cls(
            at=np.where(np.isnan(fct_us), np.array(received, dtype=np.float64), finished),
            fct_us=fct_us,
            size_class=np.array(size_class, dtype=np.str_),
            scheme=np.array(scheme, dtype=np.str_),
            has_deadline=np.array([m is not None for m in met], dtype=np.bool_),
            missed=np.array([m is not None and not m for m in met], dtype=np.bool_),
        )

    @classmethod
    def joined(cls, parts: Sequence[FlowColumns]) -> FlowColumns:
        """One after the other; `parts` holds at least one."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def where(self, mask: NDArray[np.bool_]) -> FlowColumns:
        return FlowColumns(*(getattr(self, f.name)[mask] for f in fields(self)))


def flow_columns(engine: Engine, since: float) -> FlowColumns:
    """The flows that finished after `since` and whose record was received after it."""
    columns, _ = flow_columns_after(engine, 0, since)
    return columns.where(columns.at > since)


def flow_columns_after(engine: Engine, sequence: int, received_after: float) -> tuple[FlowColumns, int]:
    """The records after that sequence number received after that time, and the last one's sequence number."""
    query = select(*(flows.c[name] for name in _FIGURES)).where(
        flows.c.received_at > received_after, flows.c.sequence > sequence, flows.c.source == SCHEDULED
    )
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    return FlowColumns.from_rows(rows), max((row[0] for row in rows), default=sequence)


def find_flows(
    engine: Engine, matching: Mapping[str, Any], before: int | None = None, limit: int = 100
) -> list[Mapping[str, Any]]:
    """Records with their `sequence` and `received_at`, newest first, older than sequence `before`.

    `matching` holds values for some of FILTERS.
    """
    query = select(flows).order_by(flows.c.sequence.desc()).limit(limit)
    for column, value in matching.items():
        query = query.where(flows.c[column] == value)
    if before is not None:
        query = query.where(flows.c.sequence < before)
    with engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def newest_flows(engine: Engine, received_after: float, source: str, limit: int) -> list[Mapping[str, Any]]:
    """Rows as of `find_flows`, newest first: cheap however many there are that are older."""
    query = _received_after(select(flows), received_after, source).limit(limit)
    with engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def _received_after(query: Select[Any], after: float, source: str) -> Select[Any]:
    # The order is that of the index; by sequence, SQLite would walk through the whole table for a few rows.
    chosen = query.where(flows.c.received_at > after, flows.c.source == source)
    return chosen.order_by(flows.c.received_at.desc(), flows.c.sequence.desc())


def recent_flows(
    engine: Engine, since: float = 0.0, limit: int = 1000, source: str = SCHEDULED
) -> list[FlowRecord]:
    """Records received after `since`, newest first."""
    return _flow_records(engine, _received_after(select(*_COLUMNS), since, source).limit(limit))


def all_flows(engine: Engine, source: str = SCHEDULED) -> list[FlowRecord]:
    """Every record, in the order of reception."""
    query = select(*_COLUMNS).where(flows.c.source == source).order_by(flows.c.sequence)
    return _flow_records(engine, query)


def count_flows(engine: Engine, source: str = SCHEDULED) -> int:
    with engine.connect() as connection:
        query = select(func.count()).select_from(flows).where(flows.c.source == source)
        return connection.execute(query).scalar_one()


def _flow_records(engine: Engine, query: Select[Any]) -> list[FlowRecord]:
    with engine.connect() as connection:
        return [FlowRecord(**row._mapping) for row in connection.execute(query)]
