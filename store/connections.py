# SPDX-License-Identifier: Apache-2.0
"""Connections to the databases, and the statements in which SQLite and PostgreSQL differ.

Order: rows become visible in the order of their numbers, so a reader can continue from the last number that it has
seen. SQLite has one writer at a time, and a row gets its number under that writer's lock. On PostgreSQL, parallel
transactions may end in another order than their rows' numbers. So those on one subject wait for each other there, by
an advisory lock that ends with the transaction.

A pool with `pool_pre_ping` asks the server before each use. Here the socket says it: the kernel has already what
the server sent when it closed the connection. Only a connection that has long been idle is asked, because a firewall
may have forgotten it.

The file of an SQLite store must stay the same file. SQLite goes on writing into a deleted file, and makes an empty one
in its place at the next connection. Neither is an error for it. So the engine compares device and inode of the file
before each use of a connection. A damaged file is kept aside.
"""

import logging
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from select import POLLIN, poll
from typing import Any
from zlib import crc32

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    Table,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import InvalidatePoolError

POOL = {"pool_size": 8, "max_overflow": 24, "pool_use_lifo": True}
"""The connection that was used last is used next. So few are in use, and their statements are prepared."""
IDLE_TRANSACTION_S = 10
"""After this time without a statement, the server ends a transaction and its connection. Otherwise, a process that is
stopped amid a transaction would keep its locks."""
SETUP_IDLE_S = 300
"""The same for the transaction that makes or changes tables, for whose end others wait anyway."""
HOLDER_IDLE_S = 1.5
"""The same for a transaction that reads or changes who leads: another controller can take the lead soon after."""
ASK_AFTER_S = 30.0
"""A connection that has been idle for longer is asked before its use."""
TCP = {"connect_timeout": 5, "tcp_user_timeout": 5000, "keepalives_idle": 5, "keepalives_interval": 2}
"""libpq's options (s, ms, s, s): a connection ends soon after the network has lost it, and a new one is made.
Otherwise TCP would try again at growing intervals, up to two minutes, and give up after a quarter of an hour."""
_UNSYNCED = "-c synchronous_commit=off"
"""A transaction ends before the server has written it to the device."""
_LEFT_S = "sluice_left_s"
_STUCK_COPIES = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND usename = current_user AND state = 'active' AND wait_event = 'ClientRead' AND query LIKE 'COPY flows %'"
    " AND query_start < clock_timestamp() - make_interval(secs => :seconds)"
)
_SLUICE = 0x51C3
"""First half of an advisory lock's key. It separates these locks from other programs' in the same database."""
_SIZES = (64, 8, 1)
"""Possible numbers of rows in a statement: few, so that SQLite parses each statement once."""


def connected(url: URL, *, fsync: bool) -> Engine:
    """Return an engine on a database of PostgreSQL. Raises what create_engine raises."""
    options = server_options(url, "" if fsync else _UNSYNCED)
    given = {name: value for name, value in TCP.items() if name not in url.query}
    engine = create_engine(url, **POOL, connect_args={"options": options, **given})

    def check(connection: Any, record: Any, _proxy: object) -> None:
        if _is_closed(engine, connection, record.info.get(_LEFT_S)):
            raise InvalidatePoolError()

    event.listen(engine, "checkout", check)
    event.listen(engine, "checkin", _note_time)
    return engine


def server_options(url: URL, more: str = "") -> str:
    """Return the settings with which the server begins a connection: those in the URL, ours, and `more`."""
    given = url.query.get("options", "")
    idle_limit = f"-c idle_in_transaction_session_timeout={IDLE_TRANSACTION_S}s"
    words = (given if isinstance(given, str) else " ".join(given), idle_limit, more)
    return " ".join(word for word in words if word)


def set_idle_limit(connection: Connection, seconds: float) -> None:
    """Let the server end this transaction only after so long without a statement."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(_idle_limit(seconds)))


def _idle_limit(seconds: float) -> ColumnElement[str]:
    return func.set_config("idle_in_transaction_session_timeout", f"{seconds}s", True)


def locking(connection: Connection, query: Select[Any]) -> Select[Any]:
    """Return the first query of a controller's transaction: it locks the rows that it reads, and shortens the limit."""
    if connection.dialect.name == "postgresql":
        query = query.add_columns(_idle_limit(HOLDER_IDLE_S))
    return query.with_for_update(read=True)


def reading(engine: Engine) -> Connection:
    """Return a connection for queries, or for one statement that writes, which need no transaction together.

    On PostgreSQL, each is a transaction of its own, so it takes one round trip instead of three.
    """
    connection = engine.connect()
    if engine.dialect.name == "postgresql":
        connection.execution_options(isolation_level="AUTOCOMMIT")
    return connection


def first(engine: Engine, query: Select[Any]) -> Row[Any] | None:
    """Return the first row of a query; None if it has none."""
    with reading(engine) as connection:
        return connection.execute(query).first()


def scalar(engine: Engine, query: Select[Any]) -> Any:
    """Return the first value of a query's first row; None if it has none."""
    with reading(engine) as connection:
        return connection.execute(query).scalar()


def put_row(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Insert a row, or replace the one with the same primary key."""
    statement = insert_for(connection, table).values(**values)
    key = table.primary_key.columns.keys()
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=values))


def _note_time(_connection: object, record: Any) -> None:
    record.info[_LEFT_S] = time.monotonic()


def _is_closed(engine: Engine, connection: Any, left_s: float | None) -> bool:
    """Whether the server has closed a pooled connection. `left_s`: when it came back to the pool; None: it is new."""
    if left_s is None:
        return False
    if connection.closed:
        return True
    waiting = poll()
    waiting.register(connection.fileno(), POLLIN)
    if waiting.poll(0):
        return True  # the server's last message, or its end; it sends nothing else unasked
    if time.monotonic() - left_s <= ASK_AFTER_S:
        return False
    try:
        return not engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error:
        return True


def end_stuck_copies(engine: Engine) -> int:
    """End the connections that have waited long for the rows of a COPY, and return how many there were.

    The server's limit for idle transactions does not count this time. SQLite has no such connections.
    """
    if engine.dialect.name != "postgresql":
        return 0
    with reading(engine) as connection:
        return len(connection.execute(_STUCK_COPIES, {"seconds": IDLE_TRANSACTION_S}).all())


def one_after_another(connection: Connection, subject: str) -> None:
    """Make this connection the only one that writes on the subject, until its transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(*lock_key(subject))))


def lock_key(subject: str) -> tuple[int, int]:
    """Return the key of the subject's advisory lock."""
    return _SLUICE, crc32(subject.encode()) & 0x7FFFFFFF


def insert_rows(connection: Connection, into: str, rows: Sequence[tuple[Any, ...]], on_conflict: str) -> int:
    """INSERT INTO `into` VALUES all rows ON CONFLICT …, into SQLite; return how many rows were added or changed.

    Python's driver lets other threads run at each row of executemany(), and waits for its turn after each. While
    another thread computed, 250 rows took 190 ms, and not 7 ms, for this reason. All rows of one statement cost a
    single turn.
    """
    done = changed = 0
    while done < len(rows):
        size = next(size for size in _SIZES if size <= len(rows) - done)
        part = rows[done : done + size]
        values = ", ".join([f"({', '.join('?' * len(part[0]))})"] * size)
        statement = f"INSERT INTO {into} VALUES {values} ON CONFLICT {on_conflict}"
        changed += connection.exec_driver_sql(statement, tuple(chain.from_iterable(part))).rowcount
        done += size
    return changed


def insert_for(connection: Connection, table: Table) -> Any:
    """Return an INSERT with ON CONFLICT in the connection's dialect."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


log = logging.getLogger(__name__)

Identity = tuple[int, int]

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
PRIMARY = 0xFF
"""SQLite's primary result code is the lowest byte of the extended one."""


class FileGone(sqlite3.OperationalError):
    """The store's file was deleted, moved or replaced."""


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite has found that the file is no store or is damaged."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & PRIMARY in _DAMAGE


def watch(engine: Engine, path: Path, *, create: bool) -> None:
    """Refuse connections to another file than the first one. Without `create`, the file must exist.

    Keep a copy of the file aside when SQLite finds it damaged.
    """
    first: Identity | None = None

    def check() -> None:
        now = _identity(path)
        if now is None and not (create and first is None):
            raise FileGone(f"there is no file {path}")
        if first is not None and now != first:
            raise FileGone(f"{path} is another file than before")

    @event.listens_for(engine, "do_connect")
    def before_connecting(*_: Any) -> None:
        check()

    @event.listens_for(engine, "checkout")
    def before_use(*_: Any) -> None:
        nonlocal first
        check()
        first = first or _identity(path)

    @event.listens_for(engine, "handle_error")
    def on_error(context: ExceptionContext) -> None:
        if is_damage(context.original_exception):
            keep_aside(path)


def keep_aside(path: Path) -> None:
    """Copy a damaged store, with what belongs to it, unless there is a copy or no room for one."""
    copy = path.with_name(f"{path.name}.damaged")
    try:
        if copy.exists() or shutil.disk_usage(path.parent).free < 2 * path.stat().st_size:
            return
        shutil.copy2(path, copy)
        write_ahead = path.with_name(f"{path.name}-wal")
        if write_ahead.exists():
            shutil.copy2(write_ahead, copy.with_name(f"{copy.name}-wal"))
    except OSError as error:
        log.error("cannot keep a copy of the damaged store %s: %s", path, error)
        return
    log.error("the store %s is damaged; a copy is in %s", path, copy)


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
