# SPDX-License-Identifier: Apache-2.0
"""The partitions of the table of flows on PostgreSQL. SQLite has none.

Each partition holds PARTITION_RECORDS consecutive sequence numbers, and its name ends with the number after its last
one. The web process makes partitions ahead of need (`make_ahead`), because PostgreSQL waits for the device several
times while it makes one. A writer makes one itself only if its numbers have none. Forgetting takes whole partitions:

    detach     the records are no longer part of the table; a row of `detached_flows` says so
    their ids  some at a time, so that no transaction is long
    drop       with its row in `detached_flows`

So a crash between two of these steps leaves work, and the next call continues it. Until its id is removed, a record of
a detached partition counts as known.
"""

from sqlalchemy import Connection, Engine, delete, func, inspect, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateIndex, CreateTable

from sluice.store.connections import one_after_another, reading
from sluice.store.schema import detached_flows, flow_ids, flows, postgresql_only

PARTITION_RECORDS = 100_000
"""At 10,000 records a second, a partition fills in ten seconds. A store of a million records has eleven."""
DETACH_WAIT_MS = 20
"""How long the removal of a partition waits for readers of the table. New readers and writers queue behind it."""
_BRIEFLY = text(f"SET LOCAL lock_timeout = {DETACH_WAIT_MS}")
_LOCK_NOT_AVAILABLE = "55P03"
_NAME = "flows_before_"
_MAKERS = "partitions of flows"

_ENDS = (
    f"SELECT {{end}}(substring(relname from '^{_NAME}([0-9]+)$')::bigint) "
    "FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'flows'::regclass"
)
_FIRST_END, _LAST_END = (text(_ENDS.format(end=end).replace(":", r"\:")) for end in ("min", "max"))
TAKEN_NUMBERS = (
    f"state AS MATERIALIZED (SELECT ({_ENDS.format(end='max')}) AS made, "
    "CAST(pg_get_serial_sequence('flows', 'sequence') AS regclass) AS numbers), "
    "taken AS MATERIALIZED (SELECT made, setval(numbers, nextval(numbers) + %(count)s - 1) AS last FROM state)"
)
"""Parts of a query for the driver. `taken` takes `count` sequence numbers, and has the last of them and `made` for
`make_needed`."""
_LAST_NUMBER = text(
    "SELECT coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('flows', 'sequence') AS regclass)), 0)"
)
_BY_INDEX = text("SET LOCAL enable_seqscan = off")
"""The planner would read all ids to find 2,000 of them, because it does not know that their index is in memory."""
_ONCE = "WITH (autovacuum_vacuum_insert_threshold = -1)"
"""No record changes, and a partition goes as a whole. So a vacuum would read and write all of it for nothing."""
_REMOVE_IDS = text(
    # If an id came again after its removal, it belongs to a record of a later partition.
    f"DELETE FROM {flow_ids.name} WHERE id = ANY(CAST(:ids AS text[])) AND sequence < :before"
)


def prepare(connection: Connection) -> None:
    """Create the tables that only PostgreSQL has, and the first partitions."""
    for table in postgresql_only.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
    _make_up_to(connection, 1 + PARTITION_RECORDS)


def make_ahead(engine: Engine) -> None:
    """Make partitions so that a whole empty one follows that of the next record. No writer waits meanwhile."""
    with reading(engine) as connection:
        needed = connection.execute(_LAST_NUMBER).scalar_one() + 1 + PARTITION_RECORDS
        end = connection.execute(_LAST_END).scalar()
    if end is None or needed >= end:
        with engine.begin() as connection:
            _make_up_to(connection, needed)


def make_needed(connection: Connection, last: int, partitions_end: int | None) -> None:
    """Make the partitions that the numbers up to `last` lack.

    `made`: the number after those that had a partition when the caller's transaction took its numbers.
    """
    if partitions_end is None or last >= partitions_end:
        _make_up_to(connection, last)


def _make_up_to(connection: Connection, number: int) -> None:
    """Make the partitions that the numbers up to this one lack. Until the transaction ends, others wait with theirs."""
    one_after_another(connection, _MAKERS)
    end = connection.execute(_LAST_END).scalar() or 1
    while end <= number:
        first, end = end, end + PARTITION_RECORDS
        name = partition_name(end)
        # CREATE TABLE … PARTITION OF would wait for all readers, and ATTACH waits for none.
        like = "LIKE flows INCLUDING DEFAULTS INCLUDING INDEXES"
        connection.execute(text(f"CREATE TABLE {name} ({like}) {_ONCE}"))
        attach(connection, name, str(first), end)


def attach(connection: Connection, name: str, first: str, end: int) -> None:
    """Make a table the partition for the numbers from `first`, a number or MINVALUE, and below `end`."""
    connection.execute(
        text(f"ALTER TABLE flows ATTACH PARTITION {name} FOR VALUES FROM ({first}) TO ({end})")
    )


def partition_name(end: int) -> str:
    """Return the name of the partition for the numbers below `end`."""
    return f"{_NAME}{end}"


def forget_flows(engine: Engine, last: int, rows: int) -> int:
    """Remove up to `rows` records of partitions whose sequence numbers are all at most `last`.

    The partition of the newest record stays. Returns how many records were removed. 0: nothing is left to do, another
    process does it, or readers keep the table.
    """
    removed = 0
    try:
        while removed < rows:
            some = _remove_some(engine, rows - removed)
            if some is None and not _detach_oldest(engine, last):
                break
            removed += some or 0
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
    return removed


def _detach_oldest(engine: Engine, last: int) -> bool:
    """Detach the oldest partition if all its records may go; return whether it did."""
    with engine.begin() as connection:
        one_after_another(connection, detached_flows.name)
        end = connection.execute(_FIRST_END).scalar()
        newest = connection.execute(select(func.max(flows.c.sequence))).scalar() or 0
        if end is None or end > min(last + 1, newest):
            return False
        name = partition_name(end)
        first = connection.execute(text(f"SELECT min(sequence) FROM {name}")).scalar()
        connection.execute(_BRIEFLY)
        connection.execute(text(f"ALTER TABLE flows DETACH PARTITION {name}"))
        connection.execute(detached_flows.insert().values(before=end, next=first or end))
    return True


def _remove_some(engine: Engine, rows: int) -> int | None:
    """Remove the next ids of a detached partition, at most `rows`, and after the last one its table.

    Returns how many. None: no partition is detached, or another process removes its ids.
    """
    with engine.begin() as connection:
        oldest = select(detached_flows).order_by(detached_flows.c.before).limit(1)
        partition = connection.execute(oldest.with_for_update(skip_locked=True)).first()
        if partition is None:
            return None
        name, this = partition_name(partition.before), detached_flows.c.before == partition.before
        connection.execute(_BY_INDEX)
        gone = f"SELECT id, sequence FROM {name} WHERE sequence >= :next ORDER BY sequence LIMIT :rows"
        taken = connection.execute(text(gone), {"next": partition.next, "rows": rows}).all()
        if len(taken) == rows:
            connection.execute(update(detached_flows).where(this).values(next=taken[-1].sequence + 1))
        else:
            connection.execute(_BRIEFLY)
            connection.execute(text(f"DROP TABLE {name}"))
            connection.execute(delete(detached_flows).where(this))
        connection.execute(_REMOVE_IDS, {"ids": [row.id for row in taken], "before": partition.before})
    return len(taken)


def is_partitioned(connection: Connection) -> bool:
    """Return whether the table of flows, which exists, has partitions."""
    return (
        connection.execute(text("SELECT relkind FROM pg_class WHERE oid = 'flows'\\:\\:regclass")).scalar()
        == "p"
    )


def adopt_table(connection: Connection) -> None:
    """Make the table of an earlier version the first partition. Its records stay in place; their ids are copied."""
    run = connection.exec_driver_sql
    run("LOCK TABLE flows IN ACCESS EXCLUSIVE MODE")
    numbers = run("SELECT pg_get_serial_sequence('flows', 'sequence')").scalar_one()
    last = run(f"SELECT greatest(last_value, (SELECT max(sequence) FROM flows)) FROM {numbers}").scalar_one()
    inspector = inspect(connection)
    for key in (inspector.get_pk_constraint("flows"), *inspector.get_unique_constraints("flows")):
        run(f"ALTER TABLE flows DROP CONSTRAINT {key['name']}")
    for index in inspector.get_indexes("flows"):
        run(f"DROP INDEX IF EXISTS {index['name']}")  # that of the unique constraint is gone already
    run("ALTER TABLE flows ALTER sequence DROP DEFAULT, ALTER sequence TYPE bigint")
    run(f"DROP SEQUENCE {numbers}")
    name = partition_name(last + 1)
    run(f"ALTER TABLE flows RENAME TO {name}")
    for table in (flows, *postgresql_only.sorted_tables):
        connection.execute(CreateTable(table, if_not_exists=True))
    for new in flows.indexes:
        connection.execute(CreateIndex(new))
    attach(connection, name, "MINVALUE", last + 1)
    run(f"SELECT setval(pg_get_serial_sequence('flows', 'sequence'), {last})")
    run(f"INSERT INTO {flow_ids.name} SELECT id, sequence FROM {name}")
