# SPDX-License-Identifier: Apache-2.0
"""What SQLite and PostgreSQL have in common, but SQLAlchemy's general statements lack."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_for(connection: Connection, table: Table) -> Any:
    """Return an INSERT with ON CONFLICT in the connection's dialect."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)
