# SPDX-License-Identifier: Apache-2.0
"""What an error of the database means to an operator, and the remedy. And whether the store takes rows, by a write."""

import sqlite3
import time
from typing import NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from sluice.store.ages import advance
from sluice.store.connections import PRIMARY, FileGone, is_damage


class Failure(NamedTuple):
    """Why the store cannot be used."""

    code: str
    problem: str
    """What is wrong, and the remedy."""


DISK_FULL = Failure(
    "disk-full", "the disk of the store is full; make room on it, and the store takes rows again by itself"
)
DISK_BROKEN = Failure(
    "disk-broken",
    "the disk of the store does not take rows (input/output error or read-only); see the kernel's log",
)
FILE_GONE = Failure(
    "store-gone",
    "the file of the store was deleted, moved or replaced while it was open; put it back, or a copy, and restart"
    " `sluice web` and `sluice controller`. Agents keep their records until then",
)
DAMAGED = Failure(
    "store-damaged",
    "the store is damaged; a copy is kept beside it as FILE.damaged. Stop `sluice web` and `sluice controller`, move"
    " the store away, restore a backup or run `sqlite3 FILE.damaged .recover | sqlite3 FILE`, and start them again",
)
AWAY = Failure("store-unavailable", "the store did not answer; try again in a moment")

_SQLITE = {
    sqlite3.SQLITE_FULL: DISK_FULL,
    sqlite3.SQLITE_IOERR: DISK_BROKEN,
    sqlite3.SQLITE_READONLY: DISK_BROKEN,
}
_POSTGRESQL = {
    "53100": DISK_FULL,
    "58030": DISK_BROKEN,
    "25006": DISK_BROKEN,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
}
"""By SQLSTATE: disk_full, io_error, read_only_sql_transaction, data_corrupted, index_corrupted."""
_DELAYS = ("57014", "55P03")
"""SQLSTATE: query_canceled, lock_not_available."""
_NO_ROOM_FOR_INDEX = sqlite3.SQLITE_IOERR_SHMSIZE
"""On a full disk, SQLite cannot make the index of its write-ahead log when the first process opens the store."""
_PROBED_S = 3.0
"""How long the result of a write counts. Web workers write each second."""

_probes: WeakKeyDictionary[Engine, tuple[float, Failure | None]] = WeakKeyDictionary()


def failure_of(error: SQLAlchemyError) -> Failure:
    """Return what an error of the database means."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, FileGone):
        return FILE_GONE
    if is_damage(cause):
        return DAMAGED
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0)
        return DISK_FULL if code == _NO_ROOM_FOR_INDEX else _SQLITE.get(code & PRIMARY, AWAY)
    return _POSTGRESQL.get(getattr(cause, "sqlstate", None) or "", AWAY)


def is_outage(error: SQLAlchemyError) -> bool:
    """Return whether the store fails, so that the same row may be taken later. Otherwise the row is wrong."""
    lost = (
        isinstance(error, DBAPIError) and error.connection_invalidated
    )  # the server has ended the connection
    return lost or isinstance(error, (OperationalError, InterfaceError)) or failure_of(error) != AWAY


def is_delay(error: SQLAlchemyError) -> bool:
    """Return whether PostgreSQL has only cancelled a statement that took too long."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) in _DELAYS


def probe(engine: Engine) -> Failure | None:
    """Write the store's clock. Returns why the store takes no rows; None if it does. Raises no SQLAlchemyError."""
    failure = None
    try:
        advance(engine)
    except SQLAlchemyError as error:
        failure = failure_of(error)
    _probes[engine] = time.monotonic(), failure
    return failure


def last_failure(engine: Engine) -> Failure | None:
    """Return the result of the last write, or of one more if that is too old."""
    at_s, failure = _probes.get(engine, (0.0, None))
    return failure if time.monotonic() - at_s < _PROBED_S else probe(engine)
