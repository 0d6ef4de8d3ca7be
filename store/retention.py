# SPDX-License-Identifier: Apache-2.0
"""Deletes old rows, in small transactions, so that writers do not wait.

Ages are of the store's own clock (store/ages.py), so a step of the wall clock deletes nothing. A mark each minute at
most says which rows were there, so a row may stay a minute longer than its time.

On PostgreSQL, flow records go by whole partitions (store/partitions.py).

SQLite reuses the pages of deleted rows, and PostgreSQL vacuums them. So the store stops growing
once as much is deleted as arrives. The newest row of every table stays, because readers continue
after its number. All policies, all totals and the thresholds in force stay, too.
"""

import time
from collections.abc import Mapping

from sqlalchemy import Connection, Engine, Table, delete, func, select

from sluice.policy.retention import Retention
from sluice.policy.wire.agents import SimulatorHeartbeat, programmed_ports
from sluice.store.access import newest_certificates
from sluice.store.ages import forget_marks, mark, older_than
from sluice.store.connections import reading
from sluice.store.desired import current_topology
from sluice.store.observed import AgentRow, add_event, all_agents, newest_of_each_port
from sluice.store.partitions import forget_flows
from sluice.store.schema import agents, events, flows, port_samples, thresholds

STEP_ROWS = 500
"""Rows that one transaction deletes: 11 ms on SQLite, on a busy machine."""
STEP_ROWS_POSTGRESQL = 2_000
"""The same on PostgreSQL, where no other writer waits for it."""
_MARKS = 10
"""At least this many marks lie within the shortest time."""
_LONGEST_MARK_S = 60.0


def forget_some(engine: Engine, retention: Retention, age_s: float, rows: int = STEP_ROWS) -> int:
    """Delete at most `rows` rows of each table; return how many were deleted.

    `age_s` is the reading of the store's clock.
    """
    times_s = _times_s(retention)
    if times_s:
        mark(engine, age_s, min(_LONGEST_MARK_S, min(times_s.values()) / _MARKS))
        forget_marks(engine, age_s - max(times_s.values()))
    deleted = 0
    for table, time_s in times_s.items():
        with reading(engine) as connection:
            newest_old = older_than(connection, table.name, age_s - time_s)
        deleted += _forget(engine, table, newest_old, rows)
    if retention.most_flows is not None:
        with reading(engine) as connection:
            last = connection.execute(select(func.max(flows.c.sequence))).scalar() or 0
        deleted += _forget(engine, flows, last - retention.most_flows, rows)
    if retention.agents_s is not None:
        deleted += _forget_silent_agents(engine, retention.agents_s, age_s)
    return deleted


def _times_s(retention: Retention) -> Mapping[Table, float]:
    """Return table → how long it keeps a row, without those that keep all rows."""
    kept = {
        flows: retention.flows_s,
        port_samples: retention.samples_s,
        thresholds: retention.samples_s,
        events: retention.events_s,
    }
    return {table: time_s for table, time_s in kept.items() if time_s is not None}


def _forget(engine: Engine, table: Table, last: int, rows: int) -> int:
    """Delete rows up to this number, the lowest first."""
    if last <= 0:
        return 0
    if table is flows and engine.dialect.name == "postgresql":
        return forget_flows(engine, last, rows)
    (key,) = table.primary_key.columns
    with engine.begin() as connection:
        chosen = select(key).where(key <= last, key.not_in(_staying(connection, table)))
        keys = connection.execute(chosen.order_by(key).limit(rows)).scalars().all()
        if not keys:
            return 0
        return connection.execute(delete(table).where(key.in_(keys))).rowcount


def _staying(connection: Connection, table: Table) -> list[int]:
    (key,) = table.primary_key.columns
    if table is thresholds or table is port_samples:
        return list(connection.execute(newest_of_each_port(table)).scalars())
    last = connection.execute(select(func.max(key))).scalar()
    return [] if last is None else [last]


def _forget_silent_agents(engine: Engine, keep_s: float, age_s: float) -> int:
    """Delete the unexpected agents without a heartbeat for `keep_s`, with an event each; return how many.

    Anyone on this machine may report under an invented name. Expected are hosts of the network, port agents of its
    ports, and agents with a valid certificate. `age_s` is the reading of the store's clock.
    """
    before_s = age_s - keep_s
    silent = [row for row in all_agents(engine) if row.seen_s < before_s]
    gone = [row for row in silent if not _is_expected(engine, row)]
    for row in gone:
        with engine.begin() as connection:
            still_silent = (agents.c.name == row.name) & (agents.c.seen_s < before_s)
            deleted = connection.execute(delete(agents).where(still_silent)).rowcount
        if deleted:
            add_event(
                engine,
                "agent-expired",
                agent=row.name,
                agent_kind=row.kind,
                silent_s=round(age_s - row.seen_s),
            )
    return len(gone)


def _is_expected(engine: Engine, row: AgentRow) -> bool:
    if row.kind == SimulatorHeartbeat.KIND:
        return True
    topology = current_topology(engine)
    if topology is not None:
        if row.name in {host.name for host in topology.hosts}:
            return True
        if programmed_ports([row.heartbeat]) & {port.id for port in topology.ports}:
            return True
    return any(
        certificate.name == row.name and certificate.revoked_at is None and certificate.ends_at > time.time()
        for certificate in newest_certificates(engine)
    )
