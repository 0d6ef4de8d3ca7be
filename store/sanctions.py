# SPDX-License-Identifier: Apache-2.0
"""The hosts that are demoted because they sent wrong tags. The events hold past demotions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import Engine, delete, select

from sluice.policy.policing.limits import Demoted
from sluice.store.connections import reading
from sluice.store.dialect import insert_for
from sluice.store.schema import sanctions


@dataclass(frozen=True)
class Sanction(Demoted):
    """A demotion that is in force."""

    since: float = field(kw_only=True)
    """Epoch seconds."""


def put_sanction(engine: Engine, sanction: Sanction) -> None:
    with engine.begin() as connection:
        values = vars(sanction)
        statement = insert_for(connection, sanctions).values(**values)
        connection.execute(statement.on_conflict_do_update(index_elements=["port"], set_=values))


def lift_sanctions(engine: Engine, ports: Collection[str]) -> None:
    with engine.begin() as connection:
        connection.execute(delete(sanctions).where(sanctions.c.port.in_(ports)))


def lift_all_but(engine: Engine, ports: Collection[str]) -> None:
    """Delete the sanctions of ports that no longer exist, or that no controller polices, because
    none would restore them."""
    with engine.begin() as connection:
        connection.execute(delete(sanctions).where(sanctions.c.port.not_in(ports)))


def all_sanctions(engine: Engine) -> list[Sanction]:
    """Return the sanctions in force, the earliest first."""
    with reading(engine) as connection:
        rows = connection.execute(select(sanctions).order_by(sanctions.c.since, sanctions.c.port))
        return [Sanction(**row._mapping) for row in rows]
