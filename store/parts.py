# SPDX-License-Identifier: Apache-2.0
"""Several controllers share the switches of one network: who is alive, and who leads which switch.

The controllers hold the lease LEASE together: its holder is SHARED, and the members renew it (`renew`). A controller
that does not share waits as long as one of them does, and the other way round.

Each switch is a part. A part that is taken gets the next generation of the lease. So no two holders have the same one,
it only grows, and it exceeds those of a controller that led all switches before. By this number, switches recognise
late orders of a former holder, and the store its late rows (`fenced`).

No row holds an expiry time. A member increases `beat` at intervals, and the others see that it changes
(controller/membership.py). No one can take a part whose holder is a member: a dead one is deleted first (`bury`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, exists, literal, or_, select, update

from sluice.store.connections import insert_for, locking, reading
from sluice.store.lease import NOBODY, SHARED, Deposed
from sluice.store.schema import leases, members, parts

LEASE = "controller"
"""Held by one controller that leads all switches, or by all that share them."""
NETWORK = -1
"""The part of the coordinator, who does what concerns the whole network. All other parts are datapath ids."""
_FENCE = "sluice_parts"
"""Name of the execution option that `fenced` sets: part → generation."""


@dataclass(frozen=True)
class Part:
    holder: str
    generation: int


@dataclass(frozen=True)
class Sharing:
    """The rows as they were read."""

    beats: Mapping[str, int]
    """By member."""
    parts: Mapping[int, Part]
    lease_beat: int = 0


def beat(engine: Engine, me: str) -> bool:
    """Show that a member is alive. Returns False if the lease is not shared: then there are no members.

    It locks this member's row alone, so that no member waits for another one.
    """
    with reading(engine) as connection:
        first = select(literal(me), literal(0)).where(exists().where(*_is_shared()))
        statement = insert_for(connection, members).from_select(["name", "beat"], first)
        again = {"beat": members.c.beat + 1}
        statement = statement.on_conflict_do_update(index_elements=["name"], set_=again)
        written = connection.execute(statement.returning(members.c.beat)).first()
        connection.commit()
    return written is not None


def renew(engine: Engine, seen: int) -> None:
    """Renew the lease in the name of all members, if it still has the count `seen`."""
    with reading(engine) as connection:
        renewed = {"beat": leases.c.beat + 1, "beat_at": time.time()}
        connection.execute(update(leases).where(*_is_shared(), leases.c.beat == seen).values(renewed))
        connection.commit()


def look(engine: Engine) -> Sharing:
    lease_beat = select(leases.c.beat).where(leases.c.name == LEASE).scalar_subquery().label("lease_beat")
    with reading(engine) as connection:
        living = connection.execute(select(members, lease_beat)).all()
        rows = connection.execute(select(parts)).all()
    return Sharing(
        {row.name: row.beat for row in living},
        {row.part: Part(row.holder, row.generation) for row in rows},
        living[0].lease_beat if living else 0,
    )


def bury(engine: Engine, name: str, last_beat: int) -> None:
    """Delete a member, unless it has given a sign since this beat. Its parts are free from then on."""
    with engine.begin() as connection:
        connection.execute(delete(members).where(members.c.name == name, members.c.beat == last_beat))


def take(engine: Engine, me: str, wanted: Mapping[int, Part | None]) -> None:
    """Take those parts that are as they were read, and whose holder is `me` or no member. None: the part has no row."""
    with engine.begin() as connection:
        grown = update(leases).where(*_is_shared()).values(generation=leases.c.generation + 1)
        generation = connection.execute(grown.returning(leases.c.generation)).scalar()
        if generation is None:
            return
        mine = {"holder": me, "generation": generation}
        for part, seen in sorted(wanted.items()):
            if seen is None:
                statement = insert_for(connection, parts).values(part=part, **mine)
                connection.execute(statement.on_conflict_do_nothing())
                continue
            free = or_(parts.c.holder == me, parts.c.holder.not_in(select(members.c.name)))
            as_read = (parts.c.holder == seen.holder, parts.c.generation == seen.generation)
            connection.execute(update(parts).where(parts.c.part == part, *as_read, free).values(mine))


def release(engine: Engine, me: str, given: Collection[int]) -> None:
    """Give parts up, so that another member can take them."""
    with engine.begin() as connection:
        held = (parts.c.part.in_(given), parts.c.holder == me)
        connection.execute(update(parts).where(*held).values(holder=NOBODY))


def leave(engine: Engine, me: str) -> None:
    """Give all parts up. The last member that leaves gives the lease up."""
    with engine.begin() as connection:
        connection.execute(delete(members).where(members.c.name == me))
        connection.execute(update(parts).where(parts.c.holder == me).values(holder=NOBODY))
        last = ~exists(select(members.c.name))
        connection.execute(update(leases).where(*_is_shared(), last).values(holder=NOBODY))


def fenced(engine: Engine, held: Mapping[int, int]) -> Engine:
    """Return the same store for one who holds these parts in these generations.

    Every transaction raises Deposed if a part has another generation. No one can take a part between that look and the
    transaction's end. `engine` is from store.engine.
    """
    return engine.execution_options(**{_FENCE: dict(held)})


def check_fence(connection: Connection) -> None:
    """Carry out what `fenced` says. To be called at the begin of every transaction."""
    held: Mapping[int, int] | None = connection.get_execution_options().get(_FENCE)
    if held is None:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # no one else writes until the end
    query = select(parts.c.part, parts.c.generation).where(parts.c.part.in_(held)).order_by(parts.c.part)
    found = {row.part: row.generation for row in connection.execute(locking(connection, query))}
    lost = sorted(part for part, generation in held.items() if found.get(part) != generation)
    if lost:
        raise Deposed(f"other controllers have taken {lost} in a later generation: nothing is written")


def _is_shared() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return leases.c.name == LEASE, leases.c.holder == SHARED
