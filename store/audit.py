# SPDX-License-Identifier: Apache-2.0
"""The audit log: who changed the policy, from where, when, and which of its keys.

A row is written in the transaction of its change, so there is no change without a row. The newest MOST_ROWS stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select

from sluice.store.connections import reading
from sluice.store.schema import audit

MOST_ROWS = 10_000


@dataclass(frozen=True)
class Author:
    """Who changes something."""

    name: str
    """The name of the token."""
    address: str
    """Where the request came from."""


@dataclass(frozen=True)
class PolicyChange:
    """One row of the log. Time in epoch seconds."""

    version: int
    at: float
    by: str
    address: str
    before: int | None
    """The version that this one replaced; None for the first."""
    changed: tuple[str, ...]
    """The keys whose values differ, in alphabetical order."""


def note_change(
    connection: Connection,
    at: float,
    author: Author,
    new: tuple[int, Mapping[str, Any]],
    old: tuple[int, Mapping[str, Any]] | None,
) -> None:
    """Write a row for a change of the policy. `new` and `old` are version and document."""
    (version, document), (before, earlier) = new, old or (None, {})
    keys = sorted(key for key in {*document, *earlier} if document.get(key) != earlier.get(key))
    row = {"version": version, "at": at, "by": author.name, "address": author.address}
    connection.execute(insert(audit).values(**row, before=before, changed=keys))
    connection.execute(delete(audit).where(audit.c.version <= version - MOST_ROWS))


def policy_changes(engine: Engine, limit: int = 100) -> list[PolicyChange]:
    """Return the last changes, newest first."""
    with reading(engine) as connection:
        rows = connection.execute(select(audit).order_by(audit.c.version.desc()).limit(limit))
        return [
            PolicyChange(row.version, row.at, row.by, row.address, row.before, tuple(row.changed))
            for row in rows
        ]
