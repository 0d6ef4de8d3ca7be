# SPDX-License-Identifier: Apache-2.0
"""Reading flow records: as columns for figures over many flows, as pages of a list, and those of the scoreboard.

The list has the newest records: pages of them, those of one host, their sizes, and their traffic. The time of a query
does not grow with the store. No index serves the filters, because each would slow down every delivery. A page looks at
MOST_SEARCHED records instead. The next page continues where it stopped, so rare records take several short answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, Select, func, select

from sluice.policy.figures.scoreboard import Applied, Period, ScoredFlows
from sluice.policy.schemes import SCHEMES
from sluice.policy.thresholds.static import MeasuredFlows
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ALL, SIZE_CLASSES, TRAFFIC, WATCHED
from sluice.store.connections import reading
from sluice.store.desired import policy_history
from sluice.store.schema import flows

_NOTHING: sa.ColumnElement[bytes] = sa.literal_column("''::bytea")
_NAN: sa.ColumnElement[float] = sa.literal_column("'NaN'::float8")


MOST_COLUMNS = 500_000
"""The most flows that figures are computed from: the last 50 s at 10,000 a second, about 40 MB."""
LATEST_RECORD_S = 60.0
"""How long after its end a flow's record may arrive and still count in figures of the past."""

FIGURES = (
    "sequence",
    "received_at",
    "started_at",
    "fct_us",
    "ideal_us",
    "size_class",
    "scheme",
    "met",
    "source",
)
"""The columns from which FlowColumns are made."""

_NUMBERS = FIGURES[:5]

OTHER_SCHEME = "other"
"""The name in totals and figures for a scheme that this version does not know. It bounds their number of rows."""


SCHEME_NAMES = (*SCHEMES, OTHER_SCHEME)
_CODES: Mapping[str, Mapping[Any, int]] = {
    "size_class": {name: place for place, name in enumerate(SIZE_CLASSES)},
    "scheme": {name: place for place, name in enumerate(SCHEME_NAMES)},
    "met": {False: 0, True: 1},
    "source": {WATCHED: 1},
}
"""The values of the other columns as whole numbers. The rest, and NULL, is -1."""


def known_scheme(name: str) -> str:
    """Return the name, or OTHER_SCHEME for one that this version does not know."""
    return name if name in SCHEMES else OTHER_SCHEME


@dataclass(frozen=True)
class FlowColumns:
    """The data for figures over many flows, one array for each column: far cheaper than one record
    for each flow.

    It has scheduled and watched flows. Endless flows belong to no figure.
    """

    at: NDArray[np.float64]
    """Epoch seconds: when the flow finished, by its record; for an unfinished flow, when its record arrived."""
    fct_us: NDArray[np.float64]
    """NaN for an unfinished flow."""
    slowdown: NDArray[np.float64]
    """FCT over ideal FCT. NaN for an unfinished flow, and if the ideal FCT is unknown."""
    size_class: NDArray[np.uint8]
    """Index into SIZE_CLASSES."""
    scheme: NDArray[np.int32]
    """Index into SCHEME_NAMES."""
    has_deadline: NDArray[np.bool_]
    missed: NDArray[np.bool_]
    watched: NDArray[np.bool_]
    """The flow is a program's own, not one of a schedule."""

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[Any, ...]]) -> FlowColumns:
        """Return the flows of these rows, which have the columns FIGURES."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(FIGURES)
        _, received, started, fct, ideal, size_class, scheme, met, source = columns
        texts = size_class, map(known_scheme, scheme), met, source
        coded = [
            np.array([code_of.get(value, -1) for value in column], dtype=np.int16)
            for column, code_of in zip(texts, _CODES.values(), strict=True)
        ]
        numbers = [np.array(column, dtype=np.float64) for column in (received, started, fct, ideal)]
        return cls._of(dict(zip(FIGURES[1:], (*numbers, *coded), strict=True)))

    @classmethod
    def _of(cls, columns: Mapping[str, NDArray[Any]]) -> FlowColumns:
        """Return the flows of the columns FIGURES. Those in _CODES hold codes, or -1."""
        fct_us, scheme = columns["fct_us"], columns["scheme"]
        finished = columns["started_at"] + fct_us / US_PER_S
        return cls(
            at=np.where(np.isnan(fct_us), columns["received_at"], finished),
            fct_us=fct_us,
            slowdown=fct_us / columns["ideal_us"],
            size_class=columns["size_class"].astype(np.uint8),
            scheme=np.where(scheme < 0, SCHEME_NAMES.index(OTHER_SCHEME), scheme).astype(np.int32),
            has_deadline=columns["met"] >= 0,
            missed=columns["met"] == 0,
            watched=columns["source"] > 0,
        )

    @classmethod
    def joined(cls, parts: Sequence[FlowColumns]) -> FlowColumns:
        """Return all parts as one, in their order. `parts` is not empty."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> FlowColumns:
        """Return the flows that a mask or a list of indices selects; indices also give the order."""
        return FlowColumns(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def of_traffic(self, choice: str) -> FlowColumns:
        """Return the flows of a choice in policy.records.TRAFFIC: the same object if these are all."""
        chosen = self.watched if choice == WATCHED else ~self.watched
        return self if choice == ALL or chosen.all() else self.where(chosen)

    def by_scheme(self) -> dict[str, FlowColumns]:
        """Return the flows by the name of their scheme, in alphabetical order."""
        present = {SCHEME_NAMES[place]: place for place in np.unique(self.scheme).tolist()}
        return {name: self.where(self.scheme == place) for name, place in sorted(present.items())}


def flow_columns(
    engine: Engine, since: float, until: float = math.inf, limit: int = MOST_COLUMNS
) -> FlowColumns:
    """Return the newest `limit` flows that finished between these times and whose record arrived after `since`.

    A record that arrived more than LATEST_RECORD_S after `until` is left out.
    """
    query = newest_after(_figures(), since, *TRAFFIC[ALL])
    if until < math.inf:
        query = query.where(flows.c.received_at < until + LATEST_RECORD_S)
    columns, _ = _columns(engine, query.limit(limit))
    return columns.where((columns.at > since) & (columns.at <= until))


def flow_columns_after(
    engine: Engine, sequence: int, received_after: float, limit: int = MOST_COLUMNS
) -> tuple[FlowColumns, int]:
    """Return (the newest `limit` records after that sequence number and that time, the last
    sequence number)."""
    # It selects by sequence number: by the index on the source, each call would read all records
    # since that time.
    counted = func.coalesce(flows.c.source, "").in_(TRAFFIC[ALL])
    query = _figures().where(flows.c.sequence > sequence, flows.c.received_at > received_after, counted)
    columns, last = _columns(engine, query.order_by(flows.c.sequence.desc()).limit(limit))
    return columns, last or sequence


def newest_after(query: Select[Any], after: float, *sources: str) -> Select[Any]:
    """Return the query for records of these sources that arrived after a time, newest first."""
    # The order is the index's. Ordered by sequence, SQLite would scan the whole table for a few
    # rows.
    chosen = query.where(flows.c.received_at > after, flows.c.source.in_(sources))
    return chosen.order_by(flows.c.received_at.desc(), flows.c.sequence.desc())


def _columns(engine: Engine, query: Select[Any]) -> tuple[FlowColumns, int | None]:
    """Return the flows of a query for FIGURES, and the first one's sequence number; None if there are none."""
    if engine.dialect.name != "postgresql":
        with reading(engine) as connection:
            cursor = connection.execute(query).cursor
            assert cursor is not None, "a SELECT has a cursor"
            # 10,000 rows arrive each second, and SQLAlchemy's rows cost three times as much as the driver's.
            rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return FlowColumns.from_rows(rows), rows[0][0] if rows else None
    with reading(engine) as connection:
        columns = _packed(connection, query)
    numbers = columns["sequence"]
    return FlowColumns._of(columns), int(numbers[0]) if len(numbers) else None


def _packed(connection: Connection, query: Select[Any]) -> dict[str, NDArray[Any]]:
    """Return the columns FIGURES of the query's rows, in their order: NaN for NULL, and codes of those in _CODES.

    PostgreSQL packs each column into one value, and numpy reads its bytes. As rows, the 10,000 records of a second take
    Python some 20 ms, and most of it other threads cannot run.
    """
    rows = query.subquery()
    floats = [func.float8send(func.coalesce(sa.cast(rows.c[name], sa.Double), _NAN)) for name in _NUMBERS]
    small = [
        sa.cast(sa.case(code_of, value=rows.c[name], else_=-1), sa.SmallInteger)
        for name, code_of in _CODES.items()
    ]
    columns = [func.string_agg(value, _NOTHING) for value in (*floats, *map(func.int2send, small))]
    packed = connection.execute(select(*columns)).one()
    kinds = [np.dtype(">f8")] * len(_NUMBERS) + [np.dtype(">i2")] * len(_CODES)
    return {
        name: np.frombuffer(column or b"", kind).astype(kind.newbyteorder("="))
        for name, column, kind in zip((*_NUMBERS, *_CODES), packed, kinds, strict=True)
    }


def _figures() -> Select[Any]:
    return select(*(flows.c[name] for name in FIGURES))


FILTERS = ("scheme", "size_class", "status", "src", "dst", "met", "source", "label", "host")
"""What `find_flows` can match: columns, and `host`, which is either end."""
MOST_SEARCHED = 50_000
"""The most records that a page looks at."""
NEWEST = 10_000
"""How many records the sizes of classes are taken from."""
MOST_MEASURED = 5_000
"""How many records a measurement reads: enough for the 99th percentile, and read within milliseconds."""


@dataclass(frozen=True)
class FlowPage:
    """Some records, and how far the search for them went."""

    rows: list[Mapping[str, Any]]
    """Records with their `sequence` and `received_at`, newest first."""
    next: int | None
    """The next page has the records before this sequence number. None: there are no older ones."""
    searched_to: float | None
    """When the oldest record that was looked at arrived, in epoch seconds. None: there was none."""


def find_flows(
    engine: Engine, matching: Mapping[str, Any], before: int | None = None, limit: int = 100
) -> FlowPage:
    """Return the newest records with a sequence number below `before`: at most `limit`, of MOST_SEARCHED at most.

    `matching` maps some of FILTERS to the values to match.
    """
    with reading(engine) as connection:
        first, last = sequence_ends(connection)
        top = last + 1 if before is None else min(before, last + 1)
        bottom = max(first, top - MOST_SEARCHED)
        query = select(flows).where(flows.c.sequence >= bottom, flows.c.sequence < top)
        for name, value in matching.items():
            if name == "host":
                query = query.where(sa.or_(flows.c.src == value, flows.c.dst == value))
            else:
                query = query.where(flows.c[name] == value)
        query = query.order_by(flows.c.sequence.desc()).limit(limit)
        rows: list[Mapping[str, Any]] = [dict(row._mapping) for row in connection.execute(query)]
        reached = rows[-1]["sequence"] if len(rows) == limit else min(bottom, top)
        searched_to = received_at(connection, reached) if first < top else None
    return FlowPage(rows, reached if reached > first else None, searched_to)


def sequence_ends(connection: Connection) -> tuple[int, int]:
    """Return the lowest and the highest sequence number; (1, 0) without records."""
    # SQLite answers both from the index only if each is a query of its own.
    lowest, highest = (select(end(flows.c.sequence)).scalar_subquery() for end in (func.min, func.max))
    first, last = connection.execute(select(lowest, highest)).one()
    return first or 1, last or 0


def received_at(connection: Connection, sequence: int) -> float | None:
    """Return when the record with this sequence number, or the next one, arrived."""
    query = select(flows.c.received_at).where(flows.c.sequence >= sequence).order_by(flows.c.sequence)
    return connection.execute(query.limit(1)).scalar()


@dataclass(frozen=True)
class SentFlows:
    """The scheduled and watched flows of one sender whose records arrived after a time."""

    since: float
    """Epoch seconds. It is later than asked if more than MOST_SEARCHED records arrived after that time."""
    flows: FlowColumns
    srtt_us: NDArray[np.float64]
    """Smoothed round-trip times at the ends of those flows that have one."""
    controls: Mapping[str, int]
    """Number of flows by congestion control, the most frequent first."""


def sent_flows(engine: Engine, host: str, since: float) -> SentFlows:
    """Return the flows that this host sent, of the newest MOST_SEARCHED records."""
    columns = [flows.c[name] for name in FIGURES]
    query = select(*columns, flows.c.srtt_us, flows.c.congestion_control)
    query = query.where(flows.c.src == host, flows.c.received_at > since)
    with reading(engine) as connection:
        first, last = sequence_ends(connection)
        bottom = last - MOST_SEARCHED
        if bottom >= first:
            since = max(since, received_at(connection, bottom) or since)
        selected = connection.execute(query.where(flows.c.sequence > bottom).order_by(flows.c.sequence)).all()
    rows = [tuple(row) for row in selected if row.source in TRAFFIC[ALL]]
    return SentFlows(
        since,
        FlowColumns.from_rows([row[: len(FIGURES)] for row in rows]),
        np.array([row[-2] for row in rows if row[-2] is not None], dtype=np.float64),
        dict(Counter(row[-1] for row in rows).most_common()),
    )


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


def newest_traffic(engine: Engine) -> MeasuredFlows:
    """Return the newest flows, scheduled and watched. An unfinished flow ends when its record arrived."""
    names = ("bytes", "dst", "started_at", "fct_us", "received_at")
    query = select(*(flows.c[name] for name in names)).where(flows.c.source.in_(TRAFFIC[ALL]))
    with reading(engine) as connection:
        rows = connection.execute(query.order_by(flows.c.sequence.desc()).limit(MOST_MEASURED)).all()
    ended = [
        row.received_at if row.fct_us is None else row.started_at + row.fct_us / US_PER_S for row in rows
    ]
    return MeasuredFlows(
        np.asarray([row.bytes for row in rows], np.float64),
        [row.dst for row in rows],
        np.asarray([row.started_at for row in rows], np.float64),
        np.asarray(ended, np.float64),
    )


MOST_SCORED = 10_000
"""The most flows of one version that are scored: the newest. The bootstrap of so many takes a tenth of a second."""
LATE_S = 300.0
"""A record may arrive so long after its flow has ended."""


def applied_versions(engine: Engine, limit: int) -> list[Applied]:
    """Return the newest versions of the policy, in the order of their numbers."""
    return [
        Applied(version.version, version.policy.scheme, version.created_at, version.applied_at)
        for version in reversed(policy_history(engine, limit))
    ]


def scored_flows(
    engine: Engine, sources: Sequence[str], period: Period, dilation: float = 1.0
) -> ScoredFlows:
    """Return the newest MOST_SCORED flows of these sources that began in a period.

    `dilation`: seconds of the wall clock for each second of the FCTs, 1 except in a slow simulation. There a record
    says that its flow began one FCT before its end, but it began earlier.
    """
    query = _figures().where(
        flows.c.source.in_(sources),
        flows.c.received_at > period.since_s,
        flows.c.scheme == period.scheme,
        flows.c.started_at >= period.since_s,
    )
    if math.isfinite(period.until_s):
        until_s = period.until_s
        query = query.where(flows.c.received_at < until_s + LATE_S, flows.c.started_at < until_s)
    with reading(engine) as connection:
        newest = query.add_columns(flows.c.retransmissions).order_by(flows.c.received_at.desc())
        rows = connection.execute(newest.limit(MOST_SCORED)).all()
    columns = FlowColumns.from_rows([tuple(row)[:-1] for row in rows])
    lasted_s = columns.fct_us / US_PER_S
    started_s = np.asarray([row.started_at for row in rows], np.float64)
    return ScoredFlows(
        began_s=np.where(np.isnan(lasted_s), started_s, columns.at - dilation * lasted_s),
        ended_s=columns.at,
        fct_us=columns.fct_us,
        slowdown=columns.slowdown,
        size_class=columns.size_class,
        has_deadline=columns.has_deadline,
        missed=columns.missed,
        retransmissions=np.asarray([row.retransmissions for row in rows], np.float64),
        scheme=np.full(len(rows), period.scheme),
    )
