# SPDX-License-Identifier: Apache-2.0
"""What SQLite and PostgreSQL have in common, but SQLAlchemy's general statements lack."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects import postgresql, sqlite


def insert_for(connection: Connection, table: Table) -> Any:
    """Return an INSERT with ON CONFLICT in the connection's dialect."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def end_without_device(connection: Connection) -> None:
    """Let this transaction end on PostgreSQL before the device has it. A power failure may take it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL synchronous_commit = off"))
