# SPDX-License-Identifier: Apache-2.0
"""Deletes old rows, in small transactions, so that writers do not wait.

SQLite reuses the pages of deleted rows, and PostgreSQL vacuums them. So the store stops growing
once as much is deleted as arrives. The newest row of every table stays, because readers continue
after its number. All policies, all totals and the thresholds in force stay, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, func, select

from store.observed import newest_of_each_port
from store.schema import events, flows, port_samples, thresholds
from store.silent_agents import forget_silent_agents

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
STEP_ROWS = 500
"""Rows that one transaction deletes: 11 ms on SQLite, on a busy machine."""


@dataclass(frozen=True)
class Retention:
    """How long rows are kept. None means for ever.

    On SQLite the defaults limit the demonstration's store to 350 MB. A million flow records are
    220 MB, and an hour of samples of its 24 ports is 28 MB.
    """

    flows_s: float | None = DAY_S
    samples_s: float | None = HOUR_S
    """For port samples, and for thresholds that others have replaced."""
    events_s: float | None = 7 * DAY_S
    most_flows: int | None = 1_000_000
    """The most flow records to keep, by sequence number, of any age."""
    agents_s: float | None = 600.0
    """For silent agents that neither the network nor a certificate names."""


FOR_EVER = Retention(None, None, None, None, None)


def forget_some(engine: Engine, retention: Retention, now: float, rows: int = STEP_ROWS) -> int:
    """Delete at most `rows` rows of each table, in one transaction for each; return how many were deleted."""
    return sum(step(engine, retention, now, rows) for step in _STEPS)


def _old_flows(engine: Engine, retention: Retention, now: float, rows: int) -> int:
    """Delete old rows among the table's first. Rows are in the order of arrival, so this needs no
    index by time."""
    before = _before(now, retention.flows_s)
    if before is None:
        return 0
    first = select(flows.c.sequence, flows.c.received_at).order_by(flows.c.sequence).limit(rows)
    with engine.connect() as connection:
        staying = _staying(connection, flows)
        keys = [row.sequence for row in connection.execute(first) if row.received_at < before]
    return _delete(engine, flows, [key for key in keys if key not in staying])


def _too_many_flows(engine: Engine, retention: Retention, now: float, rows: int) -> int:
    if retention.most_flows is None:
        return 0
    with engine.connect() as connection:
        last = connection.execute(select(func.max(flows.c.sequence))).scalar() or 0
    return _forget(engine, flows, flows.c.sequence, last - retention.most_flows + 1, rows)


def _old_samples(engine: Engine, retention: Retention, now: float, rows: int) -> int:
    return _forget(engine, port_samples, port_samples.c.at, _before(now, retention.samples_s), rows)


def _old_thresholds(engine: Engine, retention: Retention, now: float, rows: int) -> int:
    return _forget(engine, thresholds, thresholds.c.at, _before(now, retention.samples_s), rows)


def _old_events(engine: Engine, retention: Retention, now: float, rows: int) -> int:
    return _forget(engine, events, events.c.at, _before(now, retention.events_s), rows)


def _silent_agents(engine: Engine, retention: Retention, now: float, _rows: int) -> int:
    before = _before(now, retention.agents_s)
    return 0 if before is None else forget_silent_agents(engine, before, now)


_STEPS: tuple[Callable[[Engine, Retention, float, int], int], ...] = (
    _old_flows,
    _too_many_flows,
    _old_samples,
    _old_thresholds,
    _old_events,
    _silent_agents,
)


def _before(now: float, keep_s: float | None) -> float | None:
    return None if keep_s is None else now - keep_s


def _forget(engine: Engine, table: Table, by: ColumnElement[float], before: float | None, rows: int) -> int:
    """Delete rows whose `by` is below `before`, the lowest first."""
    if before is None:
        return 0
    (key,) = table.primary_key.columns
    with engine.connect() as connection:
        chosen = select(key).where(by < before, key.not_in(_staying(connection, table)))
        keys = connection.execute(chosen.order_by(by).limit(rows)).scalars().all()
    return _delete(engine, table, keys)


def _delete(engine: Engine, table: Table, keys: Sequence[int]) -> int:
    if not keys:
        return 0
    (key,) = table.primary_key.columns
    with engine.begin() as connection:
        return connection.execute(delete(table).where(key.in_(keys))).rowcount


def _staying(connection: Connection, table: Table) -> list[int]:
    (key,) = table.primary_key.columns
    if table is thresholds or table is port_samples:
        return list(connection.execute(newest_of_each_port(table)).scalars())
    last = connection.execute(select(func.max(key))).scalar()
    return [] if last is None else [last]
