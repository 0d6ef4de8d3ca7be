# SPDX-License-Identifier: Apache-2.0
"""Flow records into PostgreSQL: their ids by INSERT, which finds the known ones, then the new records by COPY.

COPY writes many rows of a page at once. An INSERT of the same rows, as JSON or as arrays, costs the server
more than twice as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.store.order import lock_key
from sluice.store.partitions import TAKEN_NUMBERS, make_needed, note_unbroken
from sluice.store.schema import flow_ids, flows

_NAMES = tuple(field.name for field in entries(FlowRecord))
_fields_of = attrgetter(*_NAMES)
_LOCK = "SELECT pg_advisory_xact_lock(%s, %s)"
_LOCK_WITHOUT_DEVICE = f"{_LOCK}, set_config('synchronous_commit', 'off', true)"
_CLAIM_IDS = (
    f"WITH {TAKEN_NUMBERS}, claimed AS ("
    f"INSERT INTO {flow_ids.name} SELECT id, last - %(count)s + place FROM taken, "
    "unnest(CAST(%(ids)s AS text[])) WITH ORDINALITY AS given (id, place) ON CONFLICT DO NOTHING RETURNING 1) "
    "SELECT last, made, unbroken, (SELECT count(*) FROM claimed) AS new FROM taken"
)
_COPY = f"COPY {flows.name} (sequence, {', '.join(_NAMES)}, received_at) FROM STDIN"


def copy_new(
    connection: Connection, records: Sequence[FlowRecord], received_at: float, on_device: bool
) -> list[FlowRecord]:
    """Add the records whose ids are new, of several with one id the first, and return them.

    From then on, the transaction is the only writer of flows. Without `on_device`, it ends before the device has it.
    Raises DBAPIError.
    """
    firsts: dict[str, FlowRecord] = {}
    for record in records:
        firsts.setdefault(record.id, record)
    last, made, is_unbroken, new = _claim(connection, list(firsts), on_device)
    make_needed(connection, last, made)
    if not is_unbroken:
        note_unbroken(connection)
    first = last - len(firsts) + 1
    numbered = list(enumerate(firsts.values(), first))
    if new < len(firsts):
        query = select(flow_ids.c.sequence).where(flow_ids.c.id.in_(firsts), flow_ids.c.sequence >= first)
        ours = set(connection.execute(query).scalars())
        numbered = [(sequence, record) for sequence, record in numbered if sequence in ours]
    if numbered:
        _copy(connection, [(sequence, *_fields_of(record), received_at) for sequence, record in numbered])
    return [record for _, record in numbered]


def _claim(connection: Connection, ids: list[str], on_device: bool) -> tuple[int, int | None, bool, int]:
    """Take the lock of the writers, then the sequence numbers and ids. Returns what _CLAIM_IDS selects.

    Both statements go to the server at once, together with BEGIN. The second one sees what was written until the
    first one had the lock.
    """
    with _driver(connection, _CLAIM_IDS) as driver, driver.pipeline():
        driver.execute(_LOCK if on_device else _LOCK_WITHOUT_DEVICE, lock_key(flows.name))
        row = driver.execute(_CLAIM_IDS, {"ids": ids, "count": len(ids)}).fetchone()
    return row[0], row[1], row[2], row[3]


def _copy(connection: Connection, rows: Iterable[tuple[object, ...]]) -> None:
    with _driver(connection, _COPY) as driver, driver.cursor() as cursor, cursor.copy(_COPY) as copying:
        for row in rows:
            copying.write_row(row)


@contextmanager
def _driver(connection: Connection, statement: str) -> Iterator[Any]:
    """Yield the driver's connection, which can do what SQLAlchemy cannot, and turn its errors into SQLAlchemy's."""
    driver = connection.connection.driver_connection
    base = connection.dialect.loaded_dbapi.Error
    try:
        yield driver
    except base as error:
        raise DBAPIError.instance(statement, None, error, base, dialect=connection.dialect) from error
