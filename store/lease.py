# SPDX-License-Identifier: Apache-2.0
"""A lease: of the processes that would do the same work, the one that does it, and for which generation of holders.

The row holds no time at which it expires, since clocks differ and step. A holder counts up `beat`; who waits for the
lease takes it when the row has stood still for so long by his own monotonic clock (controller/leadership.py). Every
change of the row is a compare-and-set on (generation, beat), so that of two who reach for it one gets it. Whoever takes
it gets a greater generation than anybody had before, by which others can tell late orders of a former holder.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Engine, create_engine, event, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from store.schema import leases

NOBODY = ""
WAIT_MS = 300
"""A store that does not answer within this time is taken for away, until the next attempt."""


@dataclass(frozen=True)
class Lease:
    """A row as it was found or written."""

    name: str
    holder: str
    generation: int
    beat: int


def open_for_leases(url: str) -> Engine:
    """An engine of its own: whoever holds a lease must know within a moment whether he still does."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        limits = f"-c statement_timeout={WAIT_MS} -c lock_timeout={WAIT_MS}"
        engine = create_engine(
            parsed,
            pool_size=1,
            connect_args={"connect_timeout": 1, "options": limits, "tcp_user_timeout": 1000},
        )
    else:
        engine = create_engine(parsed, connect_args={"timeout": WAIT_MS / 1000})
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL"))
    with engine.begin() as connection:
        connection.execute(CreateTable(leases, if_not_exists=True))
    return engine


def look(engine: Engine, name: str) -> Lease | None:
    """The lease as it stands; None before the first holder."""
    columns = (leases.c.name, leases.c.holder, leases.c.generation, leases.c.beat)
    with engine.connect() as connection:
        row = connection.execute(select(*columns).where(leases.c.name == name)).first()
    return Lease(*row) if row else None


def take(engine: Engine, name: str, holder: str, seen: Lease | None) -> Lease | None:
    """Take the lease from whoever had it when it was `seen`; None when somebody else has been faster."""
    if seen is None:
        return _found(engine, name, holder)
    return _change(engine, seen, Lease(name, holder, seen.generation + 1, 0))


def renew(engine: Engine, mine: Lease) -> Lease | None:
    """Show that the holder is there; None when it is the holder no more."""
    return _change(engine, mine, Lease(mine.name, mine.holder, mine.generation, mine.beat + 1))


def release(engine: Engine, mine: Lease) -> None:
    """Leave the lease to whoever wants it."""
    _change(engine, mine, Lease(mine.name, NOBODY, mine.generation, mine.beat + 1))


def _found(engine: Engine, name: str, holder: str) -> Lease | None:
    """The first generation is the time: a switch that remembers generations of another store finds this one newer."""
    first = Lease(name, holder, int(time.time()), 0)
    try:
        with engine.begin() as connection:
            connection.execute(leases.insert().values(**vars(first), beat_at=time.time()))
    except IntegrityError:
        return None
    return first


def _change(engine: Engine, before: Lease, after: Lease) -> Lease | None:
    unchanged = (
        leases.c.name == before.name,
        leases.c.generation == before.generation,
        leases.c.beat == before.beat,
    )
    statement = update(leases).where(*unchanged).values(**vars(after), beat_at=time.time())
    with engine.begin() as connection:
        changed = connection.execute(statement).rowcount
    return after if changed else None
