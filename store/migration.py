# SPDX-License-Identifier: Apache-2.0
"""Brings a store of an earlier version up to date when it is opened. No row is lost."""

from __future__ import annotations

from sqlalchemy import Connection, Table, column, insert, inspect, select, table, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateColumn, CreateTable

from sluice.policy.errors import EnvironmentLacking
from sluice.policy.version import VERSION
from sluice.store.connections import insert_for
from sluice.store.partitions import adopt_table, is_partitioned
from sluice.store.schema import SCHEMA_VERSION, agents, flows, sanctions, schema_versions, switches

_BEFORE = "flows_before"


def refuse_newer(connection: Connection) -> None:
    """Raise EnvironmentLacking if a later version of Sluice has changed the store."""
    if not inspect(connection).has_table(schema_versions.name):
        return
    newest = connection.execute(select(schema_versions).order_by(schema_versions.c.version.desc())).first()
    if newest is not None and newest.version > SCHEMA_VERSION:
        raise EnvironmentLacking(
            f"the store has schema {newest.version} of Sluice {newest.sluice}, but this is Sluice {VERSION} with schema"
            f" {SCHEMA_VERSION}: upgrade this package, or restore a copy of the store from before the upgrade"
        )


def note_version(connection: Connection) -> None:
    """Note that the store has this version's schema."""
    noted = select(schema_versions).where(schema_versions.c.version == SCHEMA_VERSION)
    if connection.execute(noted).first() is None:
        row = insert_for(connection, schema_versions).values(version=SCHEMA_VERSION, sluice=VERSION)
        connection.execute(row.on_conflict_do_nothing())


def bring_up_to_date(connection: Connection) -> None:
    """Add the columns that tables lack, allow NULL in the table of flows where this version does, and partition it.

    It runs in one transaction, and another process may do the same at this moment. On SQLite the
    write lock keeps the two apart; on PostgreSQL the caller holds the lock on the schema.
    """
    for seen in (agents, switches, sanctions):
        _add_columns(connection, seen)
    if connection.dialect.name == "postgresql":
        if _is_old(connection):
            _alter_flows(connection)
        if inspect(connection).has_table(flows.name) and not is_partitioned(connection):
            adopt_table(connection)
        return
    if not _is_old(connection):
        return
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # sqlite3 begins no transaction before such statements
    if _is_old(connection):
        _rebuild_flows(connection)


def _add_columns(connection: Connection, wanted: Table) -> None:
    """Add columns that may be NULL to a table that exists."""
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


def _alter_flows(connection: Connection) -> None:
    present = {reflected["name"]: reflected for reflected in inspect(connection).get_columns(flows.name)}
    for wanted in flows.columns:
        if wanted.name not in present:
            definition = CreateColumn(wanted).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {flows.name} ADD COLUMN {definition}"))
        elif wanted.nullable and not present[wanted.name]["nullable"]:
            connection.execute(text(f"ALTER TABLE {flows.name} ALTER COLUMN {wanted.name} DROP NOT NULL"))


def _rebuild_flows(connection: Connection) -> None:
    """Copy the table into a new one: SQLite cannot make a column nullable."""
    names = [reflected["name"] for reflected in inspect(connection).get_columns(flows.name)]
    connection.execute(text(f"ALTER TABLE {flows.name} RENAME TO {_BEFORE}"))
    connection.execute(CreateTable(flows))
    before = table(_BEFORE, *map(column, names))
    connection.execute(insert(flows).from_select(names, select(before)))
    connection.execute(text(f"DROP TABLE {_BEFORE}"))
