# SPDX-License-Identifier: Apache-2.0
"""Flow records and the partitions that keep them."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Engine, text

from sluice.policy.wire.records import FlowRecord
from sluice.store.flows import all_flows
from tests.unit.webui import records


def flow(identity: object, **changes: Any) -> FlowRecord:
    return records.flow(str(identity), **{"started_at": 1e9, **changes})


def batch(count: int, first: int = 0) -> list[FlowRecord]:
    one = flow(first)
    return [replace(one, id=str(number)) for number in range(first, first + count)]


def kept(engine: Engine) -> list[int]:
    return [int(one.id) for one in all_flows(engine)]


def parts(engine: Engine) -> list[str]:
    """Return the tables of partitions, detached ones, too."""
    with engine.connect() as connection:
        query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'flows\\_before\\_%' ORDER BY oid"
        return list(connection.execute(text(query)).scalars())
