# SPDX-License-Identifier: Apache-2.0
"""Rows become visible in the order of their numbers. So a reader can continue from the last number
that it has seen.

SQLite has one writer at a time, and a row gets its number under that writer's lock. On PostgreSQL,
parallel transactions may end in another order than their rows' numbers. So those on one subject
wait for each other there, by an advisory lock that ends with the transaction.
"""

from __future__ import annotations

from zlib import crc32

from sqlalchemy import Connection, func, select

_SLUICE = 0x51C3
"""First half of the lock's key. It separates these locks from other programs' in the same database."""


def one_after_another(connection: Connection, subject: str) -> None:
    """Make this connection the only one that writes on the subject, until its transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(*lock_key(subject))))


def lock_key(subject: str) -> tuple[int, int]:
    """Return the key of the subject's advisory lock."""
    return _SLUICE, crc32(subject.encode()) & 0x7FFFFFFF
