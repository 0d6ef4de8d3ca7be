# SPDX-License-Identifier: Apache-2.0
"""Columns of flow records from PostgreSQL: the server packs each column into one value, and numpy reads its bytes.

As rows, the 10,000 records of a second take Python some 20 ms, and most of it other threads cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Select,
    SmallInteger,
    case,
    cast,
    func,
    literal_column,
    select,
)

_NOTHING: ColumnElement[bytes] = literal_column("''::bytea")
_NAN: ColumnElement[float] = literal_column("'NaN'::float8")


def packed(
    connection: Connection, query: Select[Any], numbers: Sequence[str], codes: Mapping[str, Mapping[Any, int]]
) -> dict[str, NDArray[Any]]:
    """Return columns of the query's rows, in their order.

    `numbers`: columns of numbers, of which NULL becomes NaN. `codes`: other columns, each with the code of every value;
    NULL and all other values have the code -1.
    """
    rows = query.subquery()
    floats = [func.float8send(func.coalesce(cast(rows.c[name], Double), _NAN)) for name in numbers]
    small = [cast(case(known, value=rows.c[name], else_=-1), SmallInteger) for name, known in codes.items()]
    columns = [func.string_agg(value, _NOTHING) for value in (*floats, *map(func.int2send, small))]
    found = connection.execute(select(*columns)).one()
    kinds = [np.dtype(">f8")] * len(numbers) + [np.dtype(">i2")] * len(codes)
    return {
        name: np.frombuffer(column or b"", kind).astype(kind.newbyteorder("="))
        for name, column, kind in zip((*numbers, *codes), found, kinds, strict=True)
    }
