# SPDX-License-Identifier: Apache-2.0
"""Reads traces that are tables, in CSV or Parquet. `sluice.policy.workload.listed_flows` checks their content."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sluice.policy.errors import FieldError
from sluice.policy.workload.listed_flows import FlowTable, Row

_MOST_AT_ONCE = 10_000
"""Rows of a Parquet file in memory."""


def load_flow_table(path: Path) -> FlowTable:
    """Return the table in a file. Its rows are read later. Raises FieldError, OSError and ValueError."""
    return _of_parquet(path) if path.suffix == ".parquet" else _of_csv(path)


def _of_csv(path: Path) -> FlowTable:
    with path.open(newline="", encoding="utf-8-sig") as file:
        columns = [column.strip() for column in next(csv.reader(file), [])]
    return FlowTable(str(path), columns, _csv_rows(path, columns))


def _csv_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows after the first. Empty lines and lines that start with # are no rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        try:
            next(lines, None)
            for values in lines:
                if values and not values[0].lstrip().startswith("#"):
                    yield f"line {lines.line_num}", _row(f"line {lines.line_num}", columns, values)
        except (ValueError, csv.Error) as error:
            raise FieldError(f"line {lines.line_num + 1}", f"cannot be read: {error}") from None


def _row(place: str, columns: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    if len(values) != len(columns):
        raise FieldError(place, f"has {len(values)} values, but there are {len(columns)} columns")
    return dict(zip(columns, values, strict=True))


def _of_parquet(path: Path) -> FlowTable:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    return FlowTable(str(path), file.schema_arrow.names, _parquet_rows(file))


def _parquet_rows(file: Any) -> Iterator[Row]:
    number = 0
    try:
        for batch in file.iter_batches(batch_size=_MOST_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", row
    except (OSError, ValueError) as error:
        raise FieldError(f"row {number + 1}", f"cannot be read: {error}") from None
