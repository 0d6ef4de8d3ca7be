# SPDX-License-Identifier: Apache-2.0
"""Flow records: delivered at least once, kept exactly once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import Engine, func, select

from policy.records import FlowRecord
from store.desired import insert_for
from store.schema import flows

_COLUMNS = [flows.c[field.name] for field in fields(FlowRecord)]


def add_flows(engine: Engine, records: Sequence[FlowRecord]) -> int:
    """Keep the records that are new and return how many were; all of them or none reach the disk."""
    if not records:
        return 0
    received_at = time.time()
    rows = [{**record.to_document(), "received_at": received_at} for record in records]
    with engine.begin() as connection:
        return connection.execute(insert_for(connection, flows).on_conflict_do_nothing(), rows).rowcount


def recent_flows(engine: Engine, since: float = 0.0, limit: int = 1000) -> list[FlowRecord]:
    """Records received after `since`, newest first."""
    query = (
        select(*_COLUMNS).where(flows.c.received_at > since).order_by(flows.c.sequence.desc()).limit(limit)
    )
    with engine.connect() as connection:
        return [FlowRecord(**row._mapping) for row in connection.execute(query)]


def all_flows(engine: Engine) -> list[FlowRecord]:
    """Every record, in the order of reception."""
    with engine.connect() as connection:
        return [
            FlowRecord(**row._mapping)
            for row in connection.execute(select(*_COLUMNS).order_by(flows.c.sequence))
        ]


def count_flows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(flows)).scalar_one()
