# SPDX-License-Identifier: Apache-2.0
"""The hosts that are demoted now because their tags were not true. What has passed is in the events."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Engine, delete, select

from store.desired import insert_for
from store.schema import sanctions


@dataclass(frozen=True)
class Sanction:
    """A host at an edge port, and what has proven that it lies."""

    port: str
    host: str
    since: float
    flow: str
    """ "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    tag: int
    sent_bytes: int
    """Payload of the flow under the tags up to this one (or under this class of known sizes)."""
    limit_bytes: int
    """What an honest flow can have sent there in that time."""
    duration_s: float
    offences: int
    term_s: float
    """It is restored when nothing has been proven for so long."""


def put_sanction(engine: Engine, sanction: Sanction) -> None:
    with engine.begin() as connection:
        values = vars(sanction)
        statement = insert_for(connection, sanctions).values(**values)
        connection.execute(statement.on_conflict_do_update(index_elements=["port"], set_=values))


def lift_sanction(engine: Engine, port: str) -> None:
    with engine.begin() as connection:
        connection.execute(delete(sanctions).where(sanctions.c.port == port))


def lift_all_but(engine: Engine, ports: Collection[str]) -> None:
    """Ports that there are no more, or that nobody polices, are nobody's to restore."""
    with engine.begin() as connection:
        connection.execute(delete(sanctions).where(sanctions.c.port.not_in(ports)))


def all_sanctions(engine: Engine) -> list[Sanction]:
    """By time."""
    with engine.connect() as connection:
        rows = connection.execute(select(sanctions).order_by(sanctions.c.since, sanctions.c.port))
        return [Sanction(**row._mapping) for row in rows]
