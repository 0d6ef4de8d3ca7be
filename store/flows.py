# SPDX-License-Identifier: Apache-2.0
"""Flow records: delivered at least once, kept exactly once.

Into PostgreSQL, an INSERT of their ids finds the known ones, and COPY adds the new records. COPY writes many rows of a
page at once. An INSERT of the same rows, as JSON or as arrays, costs the server more than twice as much.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from sluice.policy.schema.entries import entries
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ALL, FINISHED, SCHEDULED, TRAFFIC, UNFINISHED, WATCHED, FlowRecord
from sluice.store import totals
from sluice.store.connections import insert_rows, lock_key, reading, scalar
from sluice.store.flow_queries import known_scheme, newest_after
from sluice.store.partitions import TAKEN_NUMBERS, make_needed
from sluice.store.schema import flow_ids, flows
from sluice.store.totals import Tally, add_totals

_NAMES = tuple(field.name for field in entries(FlowRecord))
_fields_of = attrgetter(*_NAMES)
_LOCK = "SELECT pg_advisory_xact_lock(%s, %s)"
_CLAIM_IDS = (
    f"WITH {TAKEN_NUMBERS}, claimed AS ("
    f"INSERT INTO {flow_ids.name} SELECT id, last - %(count)s + place FROM taken, "
    "unnest(CAST(%(ids)s AS text[])) WITH ORDINALITY AS given (id, place) ON CONFLICT DO NOTHING RETURNING 1) "
    "SELECT last, made, (SELECT count(*) FROM claimed) AS new FROM taken"
)
_COPY = f"COPY {flows.name} (sequence, {', '.join(_NAMES)}, received_at) FROM STDIN"
_COLUMNS = [flows.c[name] for name in _NAMES]
_FROM_THE_NETWORK = ("src", "dst", "ideal_us")
"""What the web process completes in a watched flow's record; it may differ once the network is known better."""
_IDS_A_QUERY = 500
_INTO = f"flows ({', '.join((*_NAMES, 'received_at'))})"


def add_flows(engine: Engine, records: Sequence[FlowRecord]) -> int:
    """Store the new records, all or none, and return how many were new.

    The same transaction counts them in the totals, so each record is counted once, too.
    """
    return add_batch(engine, records).new


@dataclass(frozen=True)
class Conflict:
    """A record that differs from the stored one of its id."""

    record: FlowRecord
    field: str
    """The first key that differs."""


@dataclass(frozen=True)
class Added:
    """What became of a batch."""

    new: int = 0
    conflicts: tuple[Conflict, ...] = ()
    """In the order of the batch. The other records are in the store."""


def add_batch(engine: Engine, records: Sequence[FlowRecord]) -> Added:
    """Do `add_flows`, and also return the records that contradict the store."""
    if not records:
        return Added()
    with engine.begin() as connection:
        new = _insert(connection, records, time.time())
        tally, conflicts = Tally(), tuple[Conflict, ...]()
        if len(new) < len(records):
            counts = Counter(record.id for record in records)
            counts.subtract(record.id for record in new)
            # These records were in the store already, or come twice.
            repeated = {identity for identity, count in counts.items() if count}
            conflicts = tuple(_conflicts(records, _stored(connection, repeated)))
            tally.count(totals.RECORDS_KNOWN, len(records) - len(new) - len(conflicts))
        count_records(tally, new)
        add_totals(connection, tally.take())
    return Added(len(new), conflicts)


def _stored(connection: Connection, ids: Iterable[str]) -> dict[str, FlowRecord]:
    """Return the records with these ids. On PostgreSQL, one that is being removed is missing."""
    asked, stored = sorted(ids), {}
    for start in range(0, len(asked), _IDS_A_QUERY):
        part = asked[start : start + _IDS_A_QUERY]
        if connection.dialect.name == "postgresql":
            places = connection.execute(select(flow_ids.c.sequence).where(flow_ids.c.id.in_(part))).scalars()
            chosen = flows.c.sequence.in_(list(places))
        else:
            chosen = flows.c.id.in_(part)
        rows = connection.execute(select(*_COLUMNS).where(chosen))
        stored.update({row.id: FlowRecord(**row._mapping) for row in rows})
    return stored


def _conflicts(records: Iterable[FlowRecord], stored: Mapping[str, FlowRecord]) -> Iterator[Conflict]:
    """Yield the records that differ from the stored one of their id."""
    for record in records:
        first = stored.get(record.id, record)
        skipped = _FROM_THE_NETWORK if record.source == WATCHED else ()
        for name in _NAMES:
            if name not in skipped and getattr(record, name) != getattr(first, name):
                yield Conflict(record, name)
                break


def _insert(
    connection: Connection, records: Sequence[FlowRecord], received_at: float
) -> Sequence[FlowRecord]:
    """Insert the records whose ids are new, and return them."""
    if connection.dialect.name == "postgresql":
        return _copy_new(connection, records, received_at)
    rows = [(*_fields_of(record), received_at) for record in records]
    accepted = insert_rows(connection, _INTO, rows, "DO NOTHING")
    if accepted == len(records):
        return records
    if not accepted:
        return []
    # No other transaction adds records until this one ends, so the new ones are the table's last.
    last = select(flows.c.id).order_by(flows.c.sequence.desc()).limit(accepted)
    by_id = {record.id: record for record in reversed(records)}  # of two with one id the table has the first
    return [by_id[row.id] for row in connection.execute(last)]


def _copy_new(connection: Connection, records: Sequence[FlowRecord], received_at: float) -> list[FlowRecord]:
    """Add the records whose ids are new, of several with one id the first, and return them.

    From then on, the transaction is the only writer of flows. Raises DBAPIError.
    """
    firsts: dict[str, FlowRecord] = {}
    for record in records:
        firsts.setdefault(record.id, record)
    last, partitions_end, new = _claim(connection, list(firsts))
    make_needed(connection, last, partitions_end)
    first = last - len(firsts) + 1
    numbered = list(enumerate(firsts.values(), first))
    if new < len(firsts):
        query = select(flow_ids.c.sequence).where(flow_ids.c.id.in_(firsts), flow_ids.c.sequence >= first)
        ours = set(connection.execute(query).scalars())
        numbered = [(sequence, record) for sequence, record in numbered if sequence in ours]
    if numbered:
        with _driver(connection, _COPY) as driver, driver.cursor() as cursor, cursor.copy(_COPY) as copying:
            for sequence, record in numbered:
                copying.write_row((sequence, *_fields_of(record), received_at))
    return [record for _, record in numbered]


def _claim(connection: Connection, ids: list[str]) -> tuple[int, int | None, int]:
    """Take the lock of the writers, then the sequence numbers and ids. Returns what _CLAIM_IDS selects.

    Both statements go to the server at once, together with BEGIN. The second one sees what was written until the
    first one had the lock.
    """
    with _driver(connection, _CLAIM_IDS) as driver, driver.pipeline():
        driver.execute(_LOCK, lock_key(flows.name))
        row = driver.execute(_CLAIM_IDS, {"ids": ids, "count": len(ids)}).fetchone()
    return row[0], row[1], row[2]


@contextmanager
def _driver(connection: Connection, statement: str) -> Iterator[Any]:
    """Yield the driver's connection, which can do what SQLAlchemy cannot, and turn its errors into SQLAlchemy's."""
    driver = connection.connection.driver_connection
    base = connection.dialect.loaded_dbapi.Error
    try:
        yield driver
    except base as error:
        raise DBAPIError.instance(statement, None, error, base, dialect=connection.dialect) from error


def count_records(tally: Tally, records: Iterable[FlowRecord]) -> None:
    """Add these records to the counts for the metrics."""
    kinds: dict[tuple[str, str, str], list[FlowRecord]] = {}
    for record in records:
        kinds.setdefault((known_scheme(record.scheme), record.size_class, record.source), []).append(record)
    for (scheme, size_class, source), those in kinds.items():
        finished = [record.fct_us / US_PER_S for record in those if record.fct_us is not None]
        for status, count in ((FINISHED, len(finished)), (UNFINISHED, len(those) - len(finished))):
            tally.count(totals.FLOWS, count, source=source, scheme=scheme, status=status)
        if source in TRAFFIC[ALL]:
            kind = {"source": source, "scheme": scheme}
            tally.observe(totals.FLOW_SECONDS, finished, **kind, size_class=size_class)
            slowdowns = [record.slowdown for record in those if record.slowdown is not None]
            tally.observe(totals.FLOW_SLOWDOWN, slowdowns, **kind, size_class=size_class)
            tally.count(totals.RETRANSMISSIONS, sum(record.retransmissions or 0 for record in those), **kind)
            tally.count(totals.FLOW_BYTES, sum(record.bytes for record in those), **kind)
            for met in (True, False):
                count = sum(record.met is met for record in those)
                tally.count(totals.DEADLINE_FLOWS, count, **kind, met=str(met).lower())


def newest_flows(engine: Engine, received_after: float, source: str, limit: int) -> list[Mapping[str, Any]]:
    """Return rows like those of `sluice.store.flow_queries.find_flows`, newest first. The cost does not grow with the
    number of older rows."""
    query = newest_after(select(flows), received_after, source).limit(limit)
    with reading(engine) as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def recent_flows(engine: Engine, since: float, limit: int) -> list[FlowRecord]:
    """Return the records of scheduled flows received after `since`, newest first."""
    query = newest_after(select(*_COLUMNS), since, SCHEDULED).limit(limit)
    with reading(engine) as connection:
        return [FlowRecord(**row._mapping) for row in connection.execute(query)]


def all_flows(engine: Engine, source: str = SCHEDULED, after: int = 0) -> list[FlowRecord]:
    """Return every record after that sequence number, in the order of reception."""
    return [record for _, page in numbered_pages(engine, source, after) for record in page]


def numbered_pages(
    engine: Engine, source: str = SCHEDULED, after: int = 0, page: int = 20_000
) -> Iterator[tuple[int, list[FlowRecord]]]:
    """Yield what `all_flows` returns in parts that fit in memory, each with the sequence number of its last record."""
    chosen = select(flows.c.sequence, *_COLUMNS).where(flows.c.source == source)
    while True:
        query = chosen.where(flows.c.sequence > after).order_by(flows.c.sequence).limit(page)
        with reading(engine) as connection:
            rows = connection.execute(query).all()
        if not rows:
            return
        after = rows[-1][0]
        yield after, [FlowRecord(*row[1:]) for row in rows]


def count_flows(engine: Engine, source: str = SCHEDULED, after: int = 0) -> int:
    """Return the number of records after that sequence number."""
    query = select(func.count()).where(flows.c.source == source, flows.c.sequence > after)
    return int(scalar(engine, query))


def last_sequence(engine: Engine) -> int:
    """Return the sequence number of the newest record; 0 before the first."""
    return scalar(engine, select(func.max(flows.c.sequence))) or 0
