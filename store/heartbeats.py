# SPDX-License-Identifier: Apache-2.0
"""Heartbeats into the store: those that wait at one moment in one transaction, on PostgreSQL in one statement.

On PostgreSQL, they do not wait for the device: after a power failure, each agent's next heartbeat replaces its last one
anyway.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, func, select, text, update

from policy.agents import Heartbeat
from policy.entries import write
from store.ages import age_s
from store.connections import reading
from store.dialect import insert_for
from store.schema import agents, policies

MOST_AGENTS = 1000
"""The most agents that report at one web process's store."""


@dataclass(frozen=True)
class Kept:
    """What became of some heartbeats."""

    names: frozenset[str]
    """The agents whose heartbeats were stored. For the others there is no room."""
    policy_version: int
    """Version of the newest policy; 0 before the first."""


_REPLACE = text(
    # Two processes lock the rows in one order, so neither waits for a row while the other waits for one of its rows.
    "WITH given (name, kind, status) AS (SELECT * FROM unnest("
    "CAST(:names AS text[]), CAST(:kinds AS text[]), CAST(:statuses AS text[]))), "
    "known AS (SELECT name FROM agents WHERE name = ANY(CAST(:names AS text[])) ORDER BY name FOR NO KEY UPDATE), "
    "replaced AS (UPDATE agents SET kind = given.kind, status = CAST(given.status AS json), seen_at = :seen_at, "
    "seen_s = :seen_s FROM known JOIN given USING (name) WHERE agents.name = known.name RETURNING agents.name) "
    # Local, so only this statement ends before the device has it.
    "SELECT name, (SELECT max(version) FROM policies) AS version, set_config('synchronous_commit', 'off', true) "
    "FROM replaced"
)


def put_heartbeats(engine: Engine, beats: Mapping[str, Heartbeat]) -> Kept:
    """Store the heartbeats of known agents, by name, and those of others while there are fewer than MOST_AGENTS."""
    seen_s = age_s(engine)
    if engine.dialect.name == "postgresql":
        kept, version = _replace(engine, beats, seen_s)
        if len(kept) == len(beats):
            return Kept(frozenset(kept), version)
        beats = {name: beat for name, beat in beats.items() if name not in kept}
    else:
        kept = set()
    with engine.begin() as connection:
        kept |= {name for name, beat in sorted(beats.items()) if _put(connection, name, beat, seen_s)}
        version = connection.execute(select(func.max(policies.c.version))).scalar() or 0
    return Kept(frozenset(kept), version)


def _replace(engine: Engine, beats: Mapping[str, Heartbeat], seen_s: float) -> tuple[set[str], int]:
    """Do it for the agents that are known. Returns their names, and the newest policy's version if there is any."""
    values = {
        "names": list(beats),
        "kinds": [beat.KIND for beat in beats.values()],
        "statuses": [json.dumps(write(beat)) for beat in beats.values()],
        "seen_at": time.time(),
        "seen_s": seen_s,
    }
    with reading(engine) as connection:
        rows = connection.execute(_REPLACE, values).all()
    return {row.name for row in rows}, (rows[0].version or 0) if rows else 0


def _put(connection: Connection, name: str, beat: Heartbeat, seen_s: float) -> bool:
    """Store a heartbeat if the agent is known, or if there is room for one more; return whether it did."""
    row = agent_row(name, beat, seen_s)
    if connection.execute(update(agents).where(agents.c.name == name).values(row)).rowcount:
        return True
    if connection.execute(select(func.count()).select_from(agents)).scalar_one() >= MOST_AGENTS:
        return False
    added = insert_for(connection, agents).values(row)
    connection.execute(added.on_conflict_do_update(index_elements=["name"], set_=row))
    return True


def agent_row(name: str, beat: Heartbeat, seen_s: float) -> dict[str, Any]:
    """Return the row of an agent. `seen_s`: reading of the store's clock."""
    status = write(beat)
    return {"name": name, "kind": beat.KIND, "status": status, "seen_at": time.time(), "seen_s": seen_s}
