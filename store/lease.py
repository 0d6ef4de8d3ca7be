# SPDX-License-Identifier: Apache-2.0
"""A lease: it decides which of several processes does a task that only one may do.

The row holds no expiry time, because clocks differ and step. The holder increases `beat` at
intervals. A process that waits for the lease takes it after the row has not changed for some time
by its own monotonic clock (controller/leadership.py).

Every change of the row is a compare-and-set on (generation, beat), so only one of two competitors
gets the lease. Each new holder gets a greater generation than all before. By this number, switches
recognise late orders of a former holder, and the store its late rows (`fenced`).
"""

import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from sluice.store.connections import HOLDER_IDLE_S, first, locking, server_options, watch
from sluice.store.schema import leases

NOBODY = ""
_FENCE = "sluice_lease"
"""Name of the execution option that `fenced` sets: the lease's name and generation."""
WAIT_MS = 300
"""A store that does not answer within this time counts as unreachable until the next attempt."""


class Deposed(Exception):
    """The lease has another generation than the one in whose name the store is written."""


@dataclass(frozen=True)
class Lease:
    """The row as it was read or written."""

    name: str
    holder: str
    generation: int
    beat: int


def open_for_leases(url: str, *, create: bool = True) -> Engine:
    """Return an engine with short timeouts, because a holder must soon notice that it has lost the lease.

    Without `create`, the file of an SQLite store must exist.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        idle = f"-c idle_in_transaction_session_timeout={HOLDER_IDLE_S}s"
        limits = server_options(parsed, f"-c statement_timeout={WAIT_MS} -c lock_timeout={WAIT_MS} {idle}")
        engine = create_engine(
            parsed,
            pool_size=1,
            connect_args={"connect_timeout": 1, "options": limits, "tcp_user_timeout": 1000},
        )
    else:
        engine = create_engine(parsed, connect_args={"timeout": WAIT_MS / 1000})
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL"))
        if parsed.database:
            watch(engine, Path(parsed.database), create=create)
    with engine.begin() as connection:
        connection.execute(CreateTable(leases, if_not_exists=True))
    return engine


def look(engine: Engine, name: str) -> Lease | None:
    """Return the lease as the store has it; None before the first holder."""
    columns = (leases.c.name, leases.c.holder, leases.c.generation, leases.c.beat)
    row = first(engine, select(*columns).where(leases.c.name == name))
    return Lease(**row._mapping) if row else None


def take(engine: Engine, name: str, holder: str, seen: Lease | None) -> Lease | None:
    """Take the lease that was read as `seen`. Returns None if another process changed it first."""
    if seen is not None:
        return _change(engine, seen, Lease(name, holder, seen.generation + 1, 0))
    # The first generation is the time, so it exceeds any that a switch remembers of another store.
    first = Lease(name, holder, int(time.time()), 0)
    try:
        with engine.begin() as connection:
            connection.execute(leases.insert().values(**vars(first), beat_at=time.time()))
    except IntegrityError:
        return None
    return first


def renew(engine: Engine, mine: Lease) -> Lease | None:
    """Show that the holder is alive. Returns None if it no longer holds the lease."""
    return _change(engine, mine, Lease(mine.name, mine.holder, mine.generation, mine.beat + 1))


def release(engine: Engine, mine: Lease) -> None:
    """Give up the lease, so that any other process can take it."""
    _change(engine, mine, Lease(mine.name, NOBODY, mine.generation, mine.beat + 1))


def fenced(engine: Engine, name: str, generation: int) -> Engine:
    """Return the same store for one who holds the lease `name` in this generation.

    Every transaction raises Deposed if the lease has another generation. Nobody can take the lease between that look
    and the transaction's end. `engine` is from store.engine.
    """
    return engine.execution_options(**{_FENCE: (name, generation)})


def check_fence(connection: Connection) -> None:
    """Carry out what `fenced` says. To be called at the begin of every transaction."""
    fence = connection.get_execution_options().get(_FENCE)
    if fence is None:
        return
    name, generation = fence
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # nobody else writes until the end
    query = select(leases.c.generation).where(leases.c.name == name)
    current = connection.execute(locking(connection, query)).scalar()
    if current != generation:
        raise Deposed(
            f"the lease '{name}' has the generation {current}, and this process held {generation}: nothing is written"
        )


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
