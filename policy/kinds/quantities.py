# SPDX-License-Identifier: Apache-2.0
"""Kinds of quantities, which a user writes with a unit: sizes, rates and durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sluice.policy import units
from sluice.policy.kinds.kind import Kind, Schema
from sluice.policy.units import NS_PER_MS, NS_PER_S, NS_PER_US


@dataclass(frozen=True)
class Quantity(Kind):
    """A number with a unit, for example "10KB". Both bounds are allowed and are in the base unit."""

    low: int
    high: int
    bare: bool = False
    """A whole number without a unit is allowed as well. It counts the base unit."""

    base: ClassVar[str]
    """The base unit."""
    example: ClassVar[str]
    unit_pattern: ClassVar[str]

    def _parse(self, where: str, value: object) -> int:
        """The value in the base unit. Raises FieldError."""
        raise NotImplementedError

    def read(self, where: str, value: object) -> Any:
        count = value if self.bare and _is_whole(value) else self._parse(where, value)
        if not self.low <= count <= self.high:  # type: ignore[operator]
            raise self.refuse(where, value)
        return count

    @property
    def allowed(self) -> str:
        low, high = self.show_base(self.low), self.show_base(self.high)
        return f'a {self.name} from {low} to {high}, for example "{self.example}"'

    @property
    def unit(self) -> str:
        return self.base

    def show_base(self, count: int) -> str:
        """A count of the base unit, written in the largest unit that keeps it whole."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        return f'"{self.show_base(value)}"'

    def schema(self) -> Schema:
        number = r"[0-9]{1,18}(\.[0-9]{1,18})?"
        text = {
            "type": "string",
            "pattern": rf"^\s*{number}\s*({self.unit_pattern})\s*$",
            "examples": [self.example],
        }
        whole = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return {"anyOf": [whole, text]} if self.bare else text


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _in_largest_unit(count: int, scales: Mapping[str, int]) -> str:
    """The count in the largest unit that leaves a whole number: "10KB" for 10,000 and "1500B" for 1,500.

    `scales`: unit → base units in it, the largest unit first.
    """
    unit, scale = next((u, s) for u, s in scales.items() if count % s == 0 and (count or s == 1))
    return f"{count // scale}{unit}"


@dataclass(frozen=True)
class Size(Quantity):
    """Bytes."""

    name: ClassVar[str] = "size"
    base: ClassVar[str] = "bytes"
    example: ClassVar[str] = "360KB"
    unit_pattern: ClassVar[str] = "[kKmMgG]?[bB]|[pP][kK][tT]"

    def _parse(self, where: str, value: object) -> int:
        return units.size_bytes(where, value)

    def show_base(self, count: int) -> str:
        return _in_largest_unit(count, {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1})


@dataclass(frozen=True)
class Rate(Quantity):
    """Bits per second."""

    name: ClassVar[str] = "rate"
    base: ClassVar[str] = "bit/s"
    example: ClassVar[str] = "10Gbit"
    unit_pattern: ClassVar[str] = "[kKmMgG]?[bB][iI][tT]"

    def _parse(self, where: str, value: object) -> int:
        return units.rate_bps(where, value)

    def show_base(self, count: int) -> str:
        return _in_largest_unit(count, {"Gbit": 10**9, "Mbit": 10**6, "kbit": 10**3, "bit": 1})


@dataclass(frozen=True)
class Duration(Quantity):
    """A time. The bounds are in nanoseconds, and `read` returns the unit `to`."""

    name: ClassVar[str] = "duration"
    base: ClassVar[str] = "ns"
    example: ClassVar[str] = "20us"
    unit_pattern: ClassVar[str] = "[nNuUmM]?[sS]|[mM][iI][nN]"

    to: str = "ns"
    """"ns", "us", "ms" or "s"."""
    whole: bool = True
    """The value must be a whole number of the unit `to`. If false, `read` returns a float and keeps the fraction."""

    _SCALES: ClassVar[Mapping[str, int]] = {"ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}

    def _parse(self, where: str, value: object) -> int:
        return units.time_ns(where, value)

    def read(self, where: str, value: object) -> Any:
        time_ns, scale = super().read(where, value), self._SCALES[self.to]
        if not self.whole:
            return time_ns / scale
        if time_ns % scale:
            raise self.refuse(where, value)
        return time_ns // scale

    @property
    def allowed(self) -> str:
        steps = f", in whole {self.to}" if self.whole and self.to != "ns" else ""
        return f"{super().allowed}{steps}"

    @property
    def unit(self) -> str:
        return self.to

    def show_base(self, count: int) -> str:
        return _in_largest_unit(count, {"s": NS_PER_S, "ms": NS_PER_MS, "us": NS_PER_US, "ns": 1})

    def show(self, value: Any) -> str:
        return f'"{self.show_base(round(value * self._SCALES[self.to]))}"'
