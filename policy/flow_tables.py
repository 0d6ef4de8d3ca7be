# SPDX-License-Identifier: Apache-2.0
"""Traces as tables: one row for each flow, with the columns time, src, dst, bytes and, if they are known, deadline.

    time,src,dst,bytes,deadline
    0s,h1,h3,20KB,5ms
    120us,h2,h3,1MB,

A value is a quantity with a unit, as in a scenario. A column whose name ends in its unit holds plain numbers: time_s,
time_ms, time_us, time_ns, and the same for deadline. Sizes may be plain numbers, because the column's name is their
unit. The deadline counts from the flow's start; an empty value means that the flow has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from sluice.policy.entries import entries
from sluice.policy.errors import FieldError, guess, shortened
from sluice.policy.explicit import ExplicitFlow, ExplicitWorkload
from sluice.policy.kinds import Kind
from sluice.policy.units import NS_PER_MS, NS_PER_S, NS_PER_US

SUFFIXES = (".csv", ".parquet")
"""Names of files that hold such a table. Other traces have "ms KB sender" lines (policy/traces.py)."""

_UNITS_NS = {"s": NS_PER_S, "ms": NS_PER_MS, "us": NS_PER_US, "ns": 1}
_TOO_LONG_NS = 10**17
"""Longer than every bound, and short enough for a quantity in text."""
_TIMES = ("time", "deadline")
_NEEDED = ("time", "src", "dst", "bytes")
_KNOWN = (*_NEEDED, "deadline")
_SPELT = "time, src, dst, bytes and deadline, where a time may have its unit in its name, as in time_us"

_KINDS: Mapping[str, Kind] = {one.name: one.kind for one in entries(ExplicitFlow)}

Row = tuple[str, Mapping[str, Any]]
"""The place of a row in its file ("line 7"), and its values by column."""


@dataclass(frozen=True)
class FlowTable:
    """A table whose rows are not read yet."""

    name: str
    """The file, for errors."""
    columns: Sequence[str]
    rows: Iterable[Row]

    def workload(self, most: int | None = None) -> ExplicitWorkload:
        """Return the flows of the first `most` rows. Raises FieldError that names the file, the row and the column."""
        try:
            found = list(islice(self._flows(), most))
        except FieldError as error:
            raise FieldError("workload.trace", f"{self.name}: {error}") from None
        if not found:
            raise FieldError(
                "workload.trace", f"{self.name}: has no flow; write one row for each flow below the columns"
            )
        if most is not None and len(found) < most:
            raise FieldError(
                "workload.flows",
                f"must be at most {len(found)}, the number of flows in {self.name}, not {most}",
            )
        places, flows = zip(*found, strict=True)
        return ExplicitWorkload(flows, tuple(f"{self.name}, {place}" for place in places))

    def _flows(self) -> Iterator[tuple[str, ExplicitFlow]]:
        """Yield the place and the flow of each row."""
        readers = _readers(self.columns)
        for place, row in self.rows:
            try:
                yield place, _flow(readers, row)
            except FieldError as error:
                raise FieldError(place, str(error)) from None


Reader = Callable[[str, object], Any]
"""Returns a value of a flow from a cell. Gets the column's name for errors."""


def _readers(columns: Sequence[str]) -> dict[str, tuple[str, Reader]]:
    """Return for each column of a flow the column's name in the file, and the function that reads its cells."""
    found: dict[str, tuple[str, Reader]] = {}
    for column in columns:
        what, _, unit = column.partition("_")
        if what not in _KNOWN or (unit and not (what in _TIMES and unit in _UNITS_NS)):
            raise FieldError(
                shortened(column), f"is not a column here{guess(column, _KNOWN)}; columns are {_SPELT}"
            )
        if what in found:
            raise FieldError(shortened(column), f"is the column {what} again, after {found[what][0]}")
        found[what] = column, _reader(what, unit)
    missing = [what for what in _NEEDED if what not in found]
    if missing:
        raise FieldError(missing[0], f"is missing; columns are {_SPELT}")
    return found


def _reader(what: str, unit: str) -> Reader:
    if what in ("src", "dst"):
        kind = _KINDS["source" if what == "src" else "to"]
        return kind.read
    if what == "bytes":
        return _size
    kind = _KINDS["start_s" if what == "time" else "deadline_us"]
    if not unit:
        return kind.read
    scale_ns = _UNITS_NS[unit]
    return lambda column, value: kind.read(column, _nanoseconds(column, value, scale_ns, kind))


def _nanoseconds(column: str, value: object, scale_ns: int, kind: Kind) -> str:
    """Return a plain number of the column's unit as a quantity."""
    number = _number(value)
    if number is None or number < 0:
        raise FieldError(
            column,
            f"must be a number of at least 0, because the column names the unit, not {shortened(value)}",
        )
    if number * scale_ns >= _TOO_LONG_NS:
        raise kind.refuse(column, value)
    return f"{round(number * scale_ns)}ns"


def _size(column: str, value: object) -> Any:
    number = _number(value)
    if number is None:
        return _KINDS["bytes"].read(column, value)
    if number != round(number):
        raise FieldError(column, f"must be whole bytes or a size such as 20KB, not {shortened(value)}")
    return _KINDS["bytes"].read(column, f"{round(number)}B")


def _number(value: object) -> Decimal | None:
    """Return a finite number, also from text; None for anything else."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 30 else None


def _flow(readers: Mapping[str, tuple[str, Reader]], row: Mapping[str, Any]) -> ExplicitFlow:
    values: dict[str, Any] = {}
    for what, (column, read) in readers.items():
        value = row.get(column)
        if what == "deadline" and (value is None or value == "" or value != value):
            values[what] = None
        else:
            values[what] = read(column, value.strip() if isinstance(value, str) else value)
    if values["src"] == values["dst"]:
        raise FieldError(readers["dst"][0], f"must differ from src, {shortened(values['src'])}")
    return ExplicitFlow(
        source=values["src"],
        to=values["dst"],
        start_s=values["time"],
        bytes=values["bytes"],
        deadline_us=values.get("deadline"),
    )
