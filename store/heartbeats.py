# SPDX-License-Identifier: Apache-2.0
"""Heartbeats into the store: those that wait at one moment in one transaction, on PostgreSQL in one statement.

On PostgreSQL, they do not wait for the device: after a power failure, each agent's next heartbeat replaces its last one
anyway.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, TextClause, func, select, text, update

from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import Heartbeat
from sluice.store.ages import age_s
from sluice.store.connections import reading
from sluice.store.schema import agents, policies

MOST_AGENTS = 1000
"""How many agents may report at a store, if no setting says it."""


@dataclass(frozen=True)
class Kept:
    """What became of some heartbeats."""

    names: frozenset[str]
    """The agents whose heartbeats were stored. For the others there is no room."""
    policy_version: int
    """Version of the newest policy; 0 before the first."""


_GIVEN = (
    "WITH given AS (SELECT * FROM json_to_recordset(CAST(:beats AS json)) "
    "AS beat (name text, kind text, status json)), "
)
_ANSWER = (
    # Local, so only this statement ends before the device has it.
    "SELECT name, (SELECT max(version) FROM policies) AS version, set_config('synchronous_commit', 'off', true) FROM "
)
_REPLACE = text(
    # Two processes lock the rows in one order, so neither waits for a row while the other waits for one of its rows.
    f"{_GIVEN} known AS (SELECT name FROM agents WHERE name IN (SELECT name FROM given) ORDER BY name "
    "FOR NO KEY UPDATE), replaced AS (UPDATE agents SET kind = given.kind, status = given.status, seen_at = :seen_at, "
    "seen_s = :seen_s FROM known JOIN given USING (name) WHERE agents.name = known.name RETURNING agents.name) "
    f"{_ANSWER} replaced"
)
_ADD = text(
    f"{_GIVEN} added AS (INSERT INTO agents (name, kind, status, seen_at, seen_s) "
    "SELECT name, kind, status, :seen_at, :seen_s FROM given ORDER BY name "
    "LIMIT (SELECT greatest(0, :most - count(*)) FROM agents) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, "
    "status = excluded.status, seen_at = excluded.seen_at, seen_s = excluded.seen_s RETURNING name) "
    f"{_ANSWER} added"
)


def put_heartbeats(engine: Engine, beats: Mapping[str, Heartbeat], most: int = MOST_AGENTS) -> Kept:
    """Store the heartbeats of known agents, by name, and those of others while there are fewer than `most`."""
    seen_s = age_s(engine)
    if engine.dialect.name == "postgresql":
        kept = _execute(engine, _REPLACE, beats, seen_s=seen_s)
        new = {name: beat for name, beat in beats.items() if name not in kept.names}
        if not new:
            return kept
        added = _execute(engine, _ADD, new, seen_s=seen_s, most=most)
        return Kept(kept.names | added.names, max(kept.policy_version, added.policy_version))
    with engine.begin() as connection:
        names = frozenset(name for name in sorted(beats) if _put(connection, name, beats[name], seen_s, most))
        return Kept(names, connection.execute(select(func.max(policies.c.version))).scalar() or 0)


def _execute(engine: Engine, statement: TextClause, beats: Mapping[str, Heartbeat], **more: float) -> Kept:
    given = [{"name": name, "kind": beat.KIND, "status": write(beat)} for name, beat in beats.items()]
    values = {"beats": json.dumps(given), "seen_at": time.time(), **more}
    with reading(engine) as connection:
        rows = connection.execute(statement, values).all()
    return Kept(frozenset(row.name for row in rows), (rows[0].version or 0) if rows else 0)


def _put(connection: Connection, name: str, beat: Heartbeat, seen_s: float, most: int) -> bool:
    """Store a heartbeat if the agent is known, or if there is room for one more; return whether it did."""
    row = agent_row(name, beat, seen_s)
    if connection.execute(update(agents).where(agents.c.name == name).values(row)).rowcount:
        return True
    if connection.execute(select(func.count()).select_from(agents)).scalar_one() >= most:
        return False
    connection.execute(agents.insert().values(row))
    return True


def agent_row(name: str, beat: Heartbeat, seen_s: float) -> dict[str, Any]:
    """Return the row of an agent. `seen_s`: reading of the store's clock."""
    status = write(beat)
    return {"name": name, "kind": beat.KIND, "status": status, "seen_at": time.time(), "seen_s": seen_s}
