# SPDX-License-Identifier: Apache-2.0
"""Flow records as columns, the data for figures over many flows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Engine,
    Select,
    SmallInteger,
    case,
    cast,
    func,
    literal_column,
    select,
)

from sluice.policy.schemes import SCHEMES
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ALL, SIZE_CLASSES, TRAFFIC, WATCHED
from sluice.store.connections import reading
from sluice.store.schema import flows

_NOTHING: ColumnElement[bytes] = literal_column("''::bytea")
_NAN: ColumnElement[float] = literal_column("'NaN'::float8")


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
    """Index into `schemes`."""
    has_deadline: NDArray[np.bool_]
    missed: NDArray[np.bool_]
    watched: NDArray[np.bool_]
    """The flow is a program's own, not one of a schedule."""
    schemes: tuple[str, ...]
    """Names of schemes. A name may have no flow."""

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[Any, ...]]) -> FlowColumns:
        """Return the flows of these rows, which have the columns FIGURES."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(FIGURES)
        _, received, started, fct, ideal, size_class, scheme, met, source = columns
        texts = size_class, map(known_scheme, scheme), met, source
        coded = [_coded(column, code_of) for column, code_of in zip(texts, _CODES.values(), strict=True)]
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
            schemes=SCHEME_NAMES,
        )

    @classmethod
    def joined(cls, parts: Sequence[FlowColumns]) -> FlowColumns:
        """Return all parts as one, in their order. `parts` is not empty."""
        schemes = {name: i for i, name in enumerate(dict.fromkeys(n for part in parts for n in part.schemes))}
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        renumbered = [np.array([schemes[n] for n in part.schemes], np.int32)[part.scheme] for part in parts]
        return cls(**{**arrays, "scheme": np.concatenate(renumbered)}, schemes=tuple(schemes))

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> FlowColumns:
        """Return the flows that a mask or a list of indices selects; indices also give the order."""
        return FlowColumns(**{name: getattr(self, name)[chosen] for name in _ARRAYS}, schemes=self.schemes)

    def of_traffic(self, choice: str) -> FlowColumns:
        """Return the flows of a choice in policy.records.TRAFFIC: the same object if these are all."""
        chosen = self.watched if choice == WATCHED else ~self.watched
        return self if choice == ALL or chosen.all() else self.where(chosen)

    def of_scheme(self, name: str) -> FlowColumns:
        return self.where(np.equal(self.scheme, self.schemes.index(name)))


_ARRAYS = tuple(f.name for f in fields(FlowColumns) if f.name != "schemes")


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
        rows = _fetched(engine, query)
        return FlowColumns.from_rows(rows), rows[0][0] if rows else None
    with reading(engine) as connection:
        columns = _packed(connection, query, _NUMBERS, _CODES)
    numbers = columns["sequence"]
    return FlowColumns._of(columns), int(numbers[0]) if len(numbers) else None


def _packed(
    connection: Connection, query: Select[Any], numbers: Sequence[str], codes: Mapping[str, Mapping[Any, int]]
) -> dict[str, NDArray[Any]]:
    """Return columns of the query's rows, in their order.

    PostgreSQL packs each column into one value, and numpy reads its bytes. As rows, the 10,000 records of a second take
    Python some 20 ms, and most of it other threads cannot run.

    `numbers`: columns of numbers, of which NULL becomes NaN. `codes`: other columns, each with the code of every value;
    NULL and all other values have the code -1.
    """
    rows = query.subquery()
    floats = [func.float8send(func.coalesce(cast(rows.c[name], Double), _NAN)) for name in numbers]
    small = [
        cast(case(code_of, value=rows.c[name], else_=-1), SmallInteger) for name, code_of in codes.items()
    ]
    columns = [func.string_agg(value, _NOTHING) for value in (*floats, *map(func.int2send, small))]
    packed = connection.execute(select(*columns)).one()
    kinds = [np.dtype(">f8")] * len(numbers) + [np.dtype(">i2")] * len(codes)
    return {
        name: np.frombuffer(column or b"", kind).astype(kind.newbyteorder("="))
        for name, column, kind in zip((*numbers, *codes), packed, kinds, strict=True)
    }


def _coded(values: Iterable[Any], code_of: Mapping[Any, int]) -> NDArray[np.int16]:
    return np.array([code_of.get(value, -1) for value in values], dtype=np.int16)


def _figures() -> Select[Any]:
    return select(*(flows.c[name] for name in FIGURES))


def _fetched(engine: Engine, query: Select[Any]) -> Sequence[tuple[Any, ...]]:
    """Return the rows as the driver gives them: 10,000 arrive each second, and SQLAlchemy's rows
    cost three times as much."""
    with reading(engine) as connection:
        cursor = connection.execute(query).cursor
        assert cursor is not None, "a SELECT has a cursor"
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows
