# SPDX-License-Identifier: Apache-2.0
"""The sizes of the flows that records call small, medium and large."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, func, select

from sluice.policy.wire.records import TRAFFIC
from sluice.store.connections import reading
from sluice.store.schema import flows

NEWEST = 10_000
"""How many records are looked at."""


@dataclass(frozen=True)
class ClassSizes:
    """The flows of one class."""

    n: int
    least_bytes: int
    most_bytes: int


def class_sizes(engine: Engine, traffic: str) -> dict[str, ClassSizes]:
    """Return the sizes by class among the newest records. `traffic` is a key of TRAFFIC. A class may be missing."""
    newest = select(flows.c.size_class, flows.c.bytes).where(flows.c.source.in_(TRAFFIC[traffic]))
    some = newest.order_by(flows.c.sequence.desc()).limit(NEWEST).subquery()
    size = some.c.bytes
    query = select(some.c.size_class, func.count(), func.min(size), func.max(size)).group_by(
        some.c.size_class
    )
    with reading(engine) as connection:
        return {name: ClassSizes(n, least, most) for name, n, least, most in connection.execute(query)}
