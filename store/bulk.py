# SPDX-License-Identifier: Apache-2.0
"""Many rows into SQLite in few statements.

Python's driver lets other threads run at each row of executemany(), and has to wait for its turn after each: beside a
thread that computes, 250 rows took 190 ms instead of 7. Rows of one statement cost one such turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection

SIZES = (64, 8, 1)
"""Rows of a statement: few different ones, so that SQLite parses each once."""


def insert_rows(connection: Connection, into: str, rows: Sequence[tuple[Any, ...]], on_conflict: str) -> int:
    """INSERT INTO `into` VALUES all rows ON CONFLICT …; returns how many rows were added or changed."""
    done = changed = 0
    while done < len(rows):
        size = next(size for size in SIZES if size <= len(rows) - done)
        part = rows[done : done + size]
        values = ", ".join([f"({', '.join('?' * len(part[0]))})"] * size)
        statement = f"INSERT INTO {into} VALUES {values} ON CONFLICT {on_conflict}"
        changed += connection.exec_driver_sql(statement, tuple(chain.from_iterable(part))).rowcount
        done += size
    return changed
