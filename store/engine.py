# SPDX-License-Identifier: Apache-2.0
"""Opening the store: SQLite in WAL mode by default, PostgreSQL by URL.

A store of an earlier version is brought up to date when it is opened. No row is lost.
"""

import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.version import VERSION
from sluice.runtime import extras
from sluice.runtime.settings.kinds import without_password
from sluice.store import ages, lease, partitions, schema
from sluice.store.connections import (
    SETUP_IDLE_S,
    connected,
    insert_for,
    one_after_another,
    set_idle_limit,
    watch,
)
from sluice.store.partitions import adopt_table, is_partitioned
from sluice.store.schema import flows, metadata, schema_versions

_BEFORE = "flows_before"


def refuse_newer(connection: Connection) -> None:
    """Raise EnvironmentLacking if a later version of Sluice has changed the store."""
    if not inspect(connection).has_table(schema_versions.name):
        return
    newest = connection.execute(select(schema_versions).order_by(schema_versions.c.version.desc())).first()
    if newest is not None and newest.version > schema.SCHEMA_VERSION:
        raise EnvironmentLacking(
            f"the store has schema {newest.version} of Sluice {newest.sluice}, but this is Sluice {VERSION} with schema"
            f" {schema.SCHEMA_VERSION}: upgrade this package, or restore a copy of the store from before the upgrade"
        )


def note_version(connection: Connection) -> None:
    """Note that the store has this version's schema."""
    noted = select(schema_versions).where(schema_versions.c.version == schema.SCHEMA_VERSION)
    if connection.execute(noted).first() is None:
        row = insert_for(connection, schema_versions).values(version=schema.SCHEMA_VERSION, sluice=VERSION)
        connection.execute(row.on_conflict_do_nothing())


def bring_up_to_date(connection: Connection) -> None:
    """Add the columns that tables lack, allow NULL in the table of flows where this version does, and partition it.

    It runs in one transaction, and another process may do the same at this moment. On SQLite the
    write lock keeps the two apart; on PostgreSQL the caller holds the lock on the schema.
    """
    for seen in (schema.agents, schema.switches, schema.sanctions):
        _add_columns(connection, seen)
    if connection.dialect.name == "postgresql":
        if _is_old(connection):
            _add_columns(connection, flows)
            for present in inspect(connection).get_columns(flows.name):
                name = present["name"]
                if name in flows.c and flows.c[name].nullable and not present["nullable"]:
                    connection.execute(text(f"ALTER TABLE {flows.name} ALTER COLUMN {name} DROP NOT NULL"))
        if inspect(connection).has_table(flows.name) and not is_partitioned(connection):
            adopt_table(connection)
        return
    if not _is_old(connection):
        return
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # sqlite3 begins no transaction before such statements
    if _is_old(connection):
        # SQLite cannot make a column nullable, so the rows go into a new table.
        names = [reflected["name"] for reflected in inspect(connection).get_columns(flows.name)]
        connection.execute(text(f"ALTER TABLE {flows.name} RENAME TO {_BEFORE}"))
        connection.execute(CreateTable(flows))
        before = sa.table(_BEFORE, *map(sa.column, names))
        connection.execute(sa.insert(flows).from_select(names, select(before)))
        connection.execute(text(f"DROP TABLE {_BEFORE}"))


def _add_columns(connection: Connection, wanted: Table) -> None:
    """Add the columns that a table lacks, if it exists."""
    inspector = inspect(connection)
    if not inspector.has_table(wanted.name):
        return
    present = {reflected["name"] for reflected in inspector.get_columns(wanted.name)}
    for missing in (each for each in wanted.columns if each.name not in present):
        definition = CreateColumn(missing).compile(dialect=connection.dialect)
        try:
            connection.execute(text(f"ALTER TABLE {wanted.name} ADD COLUMN {definition}"))
        except OperationalError as error:  # SQLite: another process did it since
            if "duplicate column" not in str(error):
                raise


def _is_old(connection: Connection) -> bool:
    inspector = inspect(connection)
    if not inspector.has_table(flows.name):
        return False
    return {column.name for column in flows.columns} > {
        reflected["name"] for reflected in inspector.get_columns(flows.name)
    }


BUSY_TIMEOUT_MS = 10_000
JOURNAL_BYTES = 64_000_000
"""SQLite cuts its write-ahead log to this length once the database holds all of its changes."""


def with_password(url: str, password_file: Path | None) -> str:
    """Return a store's URL with the password in a file. Raises EnvironmentLacking, or FieldError for a wrong URL."""
    if password_file is None:
        return url
    try:
        password = password_file.read_text().strip()
    except OSError as error:
        raise EnvironmentLacking(
            f"cannot read the password file {password_file}: {error.strerror}; change its owner or its mode"
        ) from error
    return _parsed(url).set(password=password).render_as_string(hide_password=False)


def open_store(url: str, *, fsync: bool = False, create: bool = True) -> Engine:
    """Return an engine on the store; create missing tables.

    With `fsync`, a finished transaction is on the device, so it survives a power failure. Without it, a power failure
    takes the last transactions, and the store stays consistent. Without `create`, the file of an SQLite store must
    exist.

    `url` is a SQLAlchemy URL ("sqlite:////var/lib/sluice/store.db", "postgresql+psycopg://…").
    Each group of statements runs in a transaction that survives the death of the process. Raises
    FieldError for another URL, EnvironmentLacking if psycopg is missing or a later version of Sluice has changed the
    store, and SQLAlchemy's OperationalError if the store does not answer.
    """
    engine = _engine(_parsed(url), fsync, create)
    with engine.begin() as connection:
        # Each statement also works if another process does the same at this moment.
        set_idle_limit(connection, SETUP_IDLE_S)
        one_after_another(connection, "schema")
        refuse_newer(connection)
        bring_up_to_date(connection)
        for name in schema.RETIRED_INDEXES:
            connection.execute(text(f"DROP INDEX IF EXISTS {name}"))
        for name in schema.RETIRED_TABLES:
            connection.execute(text(f"DROP TABLE IF EXISTS {name}"))
        for table in metadata.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(CreateIndex(index, if_not_exists=True))
        if connection.dialect.name == "postgresql":
            partitions.prepare(connection)
        ages.start(connection)
        note_version(connection)
    return engine


def engine_of(url: str, *, fsync: bool = False) -> Engine:
    """Return an engine on a store whose tables exist. It connects at the first query."""
    return _engine(_parsed(url), fsync, create=False)


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError:
        raise _not_a_store(url) from None


def _not_a_store(url: object) -> FieldError:
    return FieldError(
        "store",
        f"'{without_password(str(url))}' is not a store URL; write sqlite:////path/to/store.db or postgresql+psycopg://…",
    )


def _engine(url: URL, fsync: bool, create: bool) -> Engine:
    backend = url.get_backend_name()
    if backend == "sqlite":
        engine = create_engine(url)
        if url.database and url.database != ":memory:":
            watch(engine, Path(url.database), create=create)
        event.listen(engine, "connect", partial(_prepare_sqlite, synchronous="FULL" if fsync else "NORMAL"))
        event.listen(engine, "begin", lease.check_fence)
        return engine
    if backend != "postgresql":
        raise FieldError("store", f"{backend} is not supported; allowed are sqlite and postgresql+psycopg")
    if url.get_driver_name() == "psycopg":
        extras.need("psycopg", "store: a PostgreSQL store")
    try:
        engine = connected(url, fsync=fsync)
    except NoSuchModuleError:
        raise _not_a_store(url) from None
    except ImportError as error:
        raise FieldError("store", f"{error}: write postgresql+psycopg://…") from None
    event.listen(engine, "begin", lease.check_fence)
    return engine


def _prepare_sqlite(connection: Any, _record: object, *, synchronous: str) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    _write_ahead(cursor)
    cursor.execute(f"PRAGMA synchronous={synchronous}")
    cursor.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    """Select WAL mode. If two processes change a new file's mode at once, SQLite refuses one
    without waiting."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)
