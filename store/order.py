# SPDX-License-Identifier: Apache-2.0
"""Rows become visible in the order of their numbers, so that a reader can go on from the last number it has seen.

SQLite has one writer at a time, and a row gets its number under that writer's lock. PostgreSQL numbers rows of
transactions that run side by side and may end in the other order: there the transactions on one subject wait for each
other, by an advisory lock that ends with the transaction.
"""

from __future__ import annotations

from zlib import crc32

from sqlalchemy import Connection, func, select

_SLUICE = 0x51C3
"""First half of the key, apart from other programs' locks in the same database."""


def one_after_another(connection: Connection, subject: str) -> None:
    """Until the end of its transaction this connection is the only one that writes on the subject."""
    if connection.dialect.name == "postgresql":
        key = crc32(subject.encode()) & 0x7FFFFFFF
        connection.execute(select(func.pg_advisory_xact_lock(_SLUICE, key)))
