# SPDX-License-Identifier: Apache-2.0
"""Opening the store: SQLite in WAL mode by default, PostgreSQL by URL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.schema import CreateIndex, CreateTable

from policy.errors import FieldError
from store.migration import bring_up_to_date
from store.schema import metadata

BUSY_TIMEOUT_MS = 10_000


def open_store(url: str) -> Engine:
    """An engine on the store, its tables made when missing.

    `url` is a SQLAlchemy URL ("sqlite:////var/lib/sluice/store.db", "postgresql+psycopg://…"). Every statement group
    runs in a transaction that is durable against the death of the process.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise FieldError(
            "store", f"{url!r} is no store URL; write sqlite:////path/to/store.db or postgresql+psycopg://…"
        ) from None
    engine = create_engine(parsed)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    _make_tables(engine)
    return engine


def _make_tables(engine: Engine) -> None:
    """In statements that are right when another process makes the tables at the same moment."""
    with engine.begin() as connection:
        bring_up_to_date(connection)
        for table in metadata.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(CreateIndex(index, if_not_exists=True))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
