# SPDX-License-Identifier: Apache-2.0
"""The operator's description of the network, and what the switches report of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, desc, func, select

from sluice.policy.network.description import Network, Sightings, read_network
from sluice.store.connections import insert_for, reading
from sluice.store.schema import networks, sightings


@dataclass(frozen=True)
class NetworkVersion:
    """A description as it was stored."""

    version: int
    document: Mapping[str, Any] | None
    """None if it withdraws the description before it."""
    author: str
    created_at: float

    @property
    def network(self) -> Network | None:
        """The description. Raises FieldError if this version of Sluice does not accept it."""
        return None if self.document is None else read_network(self.document)


def put_network(engine: Engine, document: Mapping[str, Any] | None, author: str) -> int:
    """Store a description as the one in force, or withdraw it. Returns its version."""
    row = {"document": document, "author": author, "created_at": time.time()}
    with engine.begin() as connection:
        statement = networks.insert().values(**row).returning(networks.c.version)
        return int(connection.execute(statement).scalar_one())


def current_network(engine: Engine) -> NetworkVersion | None:
    """Return the newest description, or None before the first."""
    with reading(engine) as connection:
        row = connection.execute(select(networks).order_by(desc(networks.c.version)).limit(1)).first()
    return NetworkVersion(**row._mapping) if row else None


def network_version(engine: Engine) -> int:
    """Return the version of the newest description, 0 before the first."""
    with reading(engine) as connection:
        return connection.execute(select(func.max(networks.c.version))).scalar() or 0


def put_sightings(engine: Engine, seen: Sightings) -> None:
    """Store what the switches report, in place of the earlier report."""
    values = {"id": 1, "document": seen.to_document(), "updated_at": time.time()}
    with engine.begin() as connection:
        statement = insert_for(connection, sightings).values(**values)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


def current_sightings(engine: Engine) -> Sightings | None:
    """Return what the switches have reported; None before the first report."""
    with reading(engine) as connection:
        document = connection.execute(select(sightings.c.document)).scalar()
    return Sightings.from_document(document) if document else None


def sighted_at(engine: Engine) -> float:
    """Return when the switches' report was stored, 0 before the first."""
    with reading(engine) as connection:
        return connection.execute(select(sightings.c.updated_at)).scalar() or 0.0
