# SPDX-License-Identifier: Apache-2.0
"""Flow records into PostgreSQL: their ids by INSERT, which finds the known ones, then the new records by COPY.

COPY writes many rows of a page at once. An INSERT of the same rows, as JSON or as arrays, costs the server
more than twice as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError

from policy.entries import entries
from policy.records import FlowRecord
from store.partitions import TAKEN_NUMBERS, make_partitions
from store.schema import flow_ids, flows

_NAMES = tuple(field.name for field in entries(FlowRecord))
_fields_of = attrgetter(*_NAMES)
_CLAIM_IDS = text(
    f"WITH taken AS MATERIALIZED ({TAKEN_NUMBERS}), claimed AS ("
    f"INSERT INTO {flow_ids.name} SELECT id, last - :count + place FROM taken, "
    "unnest(CAST(:ids AS text[])) WITH ORDINALITY AS given (id, place) ON CONFLICT DO NOTHING RETURNING 1) "
    "SELECT last, made, (SELECT count(*) FROM claimed) AS new FROM taken"
)
_COPY = f"COPY {flows.name} (sequence, {', '.join(_NAMES)}, received_at) FROM STDIN"


def copy_new(connection: Connection, records: Sequence[FlowRecord], received_at: float) -> list[FlowRecord]:
    """Add the records whose ids are new, of several with one id the first, and return them.

    The caller is the only writer of flows. Raises DBAPIError.
    """
    firsts: dict[str, FlowRecord] = {}
    for record in records:
        firsts.setdefault(record.id, record)
    taken = connection.execute(_CLAIM_IDS, {"ids": list(firsts), "count": len(firsts)}).one()
    make_partitions(connection, taken.last, taken.made)
    first = taken.last - len(firsts) + 1
    numbered = list(enumerate(firsts.values(), first))
    if taken.new < len(firsts):
        query = select(flow_ids.c.sequence).where(flow_ids.c.id.in_(firsts), flow_ids.c.sequence >= first)
        ours = set(connection.execute(query).scalars())
        numbered = [(sequence, record) for sequence, record in numbered if sequence in ours]
    if numbered:
        _copy(connection, [(sequence, *_fields_of(record), received_at) for sequence, record in numbered])
    return [record for _, record in numbered]


def _copy(connection: Connection, rows: Iterable[tuple[object, ...]]) -> None:
    """COPY the rows. SQLAlchemy has no COPY, so its errors are made here."""
    driver = connection.connection.driver_connection
    assert driver is not None, "the connection is in a transaction"
    base = connection.dialect.loaded_dbapi.Error
    try:
        with driver.cursor() as cursor, cursor.copy(_COPY) as copying:
            for row in rows:
                copying.write_row(row)
    except base as error:
        raise DBAPIError.instance(_COPY, None, error, base, dialect=connection.dialect) from error
