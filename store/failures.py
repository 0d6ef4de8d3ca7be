# SPDX-License-Identifier: Apache-2.0
"""What an error of the database means to an operator: the disk is full, or the store does not answer."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError


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
AWAY = Failure("store-unavailable", "the store did not answer; try again in a moment")

_SQLITE = {
    sqlite3.SQLITE_FULL: DISK_FULL,
    sqlite3.SQLITE_IOERR: DISK_BROKEN,
    sqlite3.SQLITE_READONLY: DISK_BROKEN,
}
_POSTGRESQL = {"53100": DISK_FULL, "58030": DISK_BROKEN, "25006": DISK_BROKEN}
"""By SQLSTATE: disk_full, io_error, read_only_sql_transaction."""
_NO_ROOM_FOR_INDEX = sqlite3.SQLITE_IOERR_SHMSIZE
"""On a full disk, SQLite cannot make the index of its write-ahead log when the first process opens the store."""
_PRIMARY = 0xFF
"""SQLite's primary result code is the lowest byte of the extended one."""


def failure_of(error: SQLAlchemyError) -> Failure:
    """Return what an error of the database means."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        if getattr(cause, "sqlite_errorcode", 0) == _NO_ROOM_FOR_INDEX:
            return DISK_FULL
        return _SQLITE.get(getattr(cause, "sqlite_errorcode", 0) & _PRIMARY, AWAY)
    return _POSTGRESQL.get(getattr(cause, "sqlstate", None) or "", AWAY)
