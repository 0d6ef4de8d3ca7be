# SPDX-License-Identifier: Apache-2.0
"""The kinds of values in documents: each kind reads a value and states what it allows, in words and as JSON schema.

Policies, scenarios, flow records and agent documents are tables of entries (`policy/schema/entries.py`), and each entry
has a kind. In this order: the base; numbers, flags, texts and choices; quantities with a unit; lists and objects.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from sluice.policy import units
from sluice.policy.errors import FieldError, guess, shortened, visible
from sluice.policy.units import NS_PER_MS, NS_PER_S, NS_PER_US

Schema = dict[str, Any]
"""A JSON schema."""


@dataclass(frozen=True)
class Kind:
    """The rule for one value of a document."""

    name: ClassVar[str]
    """Shown in the reference and in the dashboard's form."""
    is_table: ClassVar[bool] = False
    """The value has keys of its own. In a list of tables, an error names the index of the table."""

    def read(self, where: str, value: object) -> Any:
        """Return the value as the program uses it. Raises FieldError that names `where` and what is allowed."""
        raise NotImplementedError

    @property
    def allowed(self) -> str:
        """What is allowed, in words that can follow "must be"."""
        raise NotImplementedError

    @property
    def unit(self) -> str:
        """Unit of the value as the program uses it; empty if it has none."""
        return ""

    def schema(self) -> Schema:
        """JSON schema of the values that `read` accepts."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        """A value as a user writes it in a document."""
        return f'"{value}"' if isinstance(value, str) else str(value)

    def refuse(self, where: str, value: object) -> FieldError:
        """The error for a value that is not allowed."""
        return FieldError(where, f"must be {self.allowed}, not {shortened(value)}")


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number between two bounds, which are allowed."""

    name: ClassVar[str] = "integer"
    low: int
    high: int
    unit: str = ""

    def read(self, where: str, value: object) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise self.refuse(where, value)
        return value

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class OneOfWhole(Kind):
    """One of a few whole numbers."""

    name: ClassVar[str] = "integer"
    values: tuple[int, ...]

    def read(self, where: str, value: object) -> int:
        if type(value) is not int or value not in self.values:
            raise self.refuse(where, value)
        return value

    @property
    def allowed(self) -> str:
        return _one_of(list(map(str, self.values)))

    def schema(self) -> Schema:
        return {"type": "integer", "enum": list(self.values)}


@dataclass(frozen=True)
class Number(Kind):
    """A number, whole or with a fraction, between two bounds."""

    name: ClassVar[str] = "number"
    low: float
    high: float
    unit: str = ""
    above: bool = False
    """The lower bound itself is not allowed."""

    def read(self, where: str, value: object) -> float:
        if type(value) is not float and type(value) is not int:
            raise self.refuse(where, value)
        if not self.low <= value <= self.high or (self.above and value == self.low):
            raise self.refuse(where, value)
        return float(value)

    @property
    def allowed(self) -> str:
        bounds = f"above {self.low:g} and up to" if self.above else f"from {self.low:g} to"
        return f"a number {bounds} {self.high:g}"

    def schema(self) -> Schema:
        low = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "number", low: self.low, "maximum": self.high}

    def show(self, value: Any) -> str:
        return f"{value:g}"


@dataclass(frozen=True)
class Flag(Kind):
    """True or false."""

    name: ClassVar[str] = "boolean"

    def read(self, where: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.refuse(where, value)
        return value

    @property
    def allowed(self) -> str:
        return "true or false"

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def show(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class Text(Kind):
    """A text that matches a pattern, has a maximum length, or both."""

    name: ClassVar[str] = "text"
    pattern: str | None = None
    """A regular expression that the whole value must match. None: any text without NUL."""
    longest: int | None = None
    """Maximum number of characters."""
    what: str = "text"
    """What the text is, in words for messages."""

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str) or not self._matches(value):
            raise self.refuse(where, value)
        if self.longest is not None and len(value) > self.longest:
            raise self.refuse(where, value)
        return value

    @cached_property
    def _matches(self) -> Callable[[str], object]:
        """The compiled pattern. It is compiled once, because flow records arrive by the thousand."""
        return re.compile(r"[^\x00]*" if self.pattern is None else self.pattern).fullmatch

    @property
    def allowed(self) -> str:
        longest = f" of at most {self.longest} characters" if self.longest is not None else ""
        matching = f" that matches {self.pattern}" if self.pattern is not None and self.what == "text" else ""
        return f"{self.what}{longest}{matching}"

    def schema(self) -> Schema:
        schema: Schema = {"type": "string"}
        if self.longest is not None:
            schema["maxLength"] = self.longest
        schema["pattern"] = f"^{self.pattern}$" if self.pattern is not None else r"^[^\u0000]*$"
        return schema


@dataclass(frozen=True)
class Line(Text):
    """Words for people. Control characters become spaces, because the text is shown in terminals and kept in logs."""

    def read(self, where: str, value: object) -> str:
        return visible(super().read(where, value))


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words."""

    name: ClassVar[str] = "choice"
    options: tuple[str, ...]

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise FieldError(where, self.refuse(where, value).problem + guess(value, self.options))
        return value

    @property
    def allowed(self) -> str:
        return _one_of([f'"{option}"' for option in self.options])

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.options)}


def _one_of(options: Sequence[str]) -> str:
    return options[0] if len(options) == 1 else f"one of {', '.join(options)}"


@dataclass(frozen=True)
class Quantity(Kind):
    """A number with a unit, for example "10KB". Both bounds are allowed and are in the base unit."""

    low: int
    high: int
    bare: bool = False
    """A whole number without a unit is allowed as well. It counts the base unit."""

    base: ClassVar[str]
    """The base unit."""
    usual: ClassVar[str]
    """An example for messages."""
    unit_pattern: ClassVar[str]
    scales: ClassVar[Mapping[str, int]]
    """Every unit that a value may have, in small letters, and the base units in it."""
    shown_scales: ClassVar[Mapping[str, int]]
    """The units in which values are shown, the largest first."""

    def read(self, where: str, value: object) -> Any:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        count = value if self.bare and is_whole else units.parse(where, value, self.scales, self.example)
        if not self.low <= count <= self.high:  # type: ignore[operator]
            raise self.refuse(where, value)
        return count

    @property
    def allowed(self) -> str:
        low, high = self.show_base(self.low), self.show_base(self.high)
        return f'a {self.name} from {low} to {high}, for example "{self.example}"'

    @cached_property
    def example(self) -> str:
        """The usual one where it is allowed, otherwise the smallest value."""
        count, step = units.parse("", self.usual, self.scales, self.usual), self.step
        fits = self.low <= count <= self.high and count % step == 0
        return self.usual if fits else self.show_base(max(self.low, min(step, self.high)))

    @property
    def step(self) -> int:
        """Values are multiples of so many base units."""
        return 1

    @property
    def unit(self) -> str:
        return self.base

    def show_base(self, count: int) -> str:
        """A count of the base unit in the largest unit that keeps it whole: "10KB" for 10,000, "1500B" for 1,500."""
        fits = ((u, s) for u, s in self.shown_scales.items() if count % s == 0 and (count or s == 1))
        unit, scale = next(fits)
        return f"{count // scale}{unit}"

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


@dataclass(frozen=True)
class Size(Quantity):
    """Bytes."""

    name: ClassVar[str] = "size"
    base: ClassVar[str] = "bytes"
    usual: ClassVar[str] = "360KB"
    unit_pattern: ClassVar[str] = "[kKmMgG]?[bB]|[pP][kK][tT]"
    scales: ClassVar[Mapping[str, int]] = units.SIZE_BYTES
    shown_scales: ClassVar[Mapping[str, int]] = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}


@dataclass(frozen=True)
class Rate(Quantity):
    """Bits per second."""

    name: ClassVar[str] = "rate"
    base: ClassVar[str] = "bit/s"
    usual: ClassVar[str] = "10Gbit"
    unit_pattern: ClassVar[str] = "[kKmMgG]?[bB][iI][tT]"
    scales: ClassVar[Mapping[str, int]] = units.RATE_BPS
    shown_scales: ClassVar[Mapping[str, int]] = {"Gbit": 10**9, "Mbit": 10**6, "kbit": 10**3, "bit": 1}


@dataclass(frozen=True)
class Duration(Quantity):
    """A time. The bounds are in nanoseconds, and `read` returns the unit `to`."""

    name: ClassVar[str] = "duration"
    base: ClassVar[str] = "ns"
    usual: ClassVar[str] = "20us"
    unit_pattern: ClassVar[str] = "[nNuUmM]?[sS]|[mM][iI][nN]"
    scales: ClassVar[Mapping[str, int]] = units.TIME_NS
    shown_scales: ClassVar[Mapping[str, int]] = {"s": NS_PER_S, "ms": NS_PER_MS, "us": NS_PER_US, "ns": 1}

    to: str = "ns"
    """"ns", "us", "ms" or "s"."""
    whole: bool = True
    """The value must be a whole number of the unit `to`. If false, `read` returns a float and keeps the fraction."""

    def read(self, where: str, value: object) -> Any:
        time_ns, scale = super().read(where, value), self.shown_scales[self.to]
        if not self.whole:
            return time_ns / scale
        if time_ns % self.step:
            raise self.refuse(where, value)
        return time_ns // scale

    @property
    def step(self) -> int:
        return self.shown_scales[self.to] if self.whole else 1

    @property
    def allowed(self) -> str:
        steps = f", in whole {self.to}" if self.whole and self.to != "ns" else ""
        return f"{super().allowed}{steps}"

    @property
    def unit(self) -> str:
        return self.to

    def show(self, value: Any) -> str:
        return f'"{self.show_base(round(value * self.shown_scales[self.to]))}"'


@dataclass(frozen=True)
class ListOf(Kind):
    """A list, which `read` returns as a tuple."""

    item: Kind
    shortest: int = 0
    longest: int = 1000
    increasing: bool = False
    """Each value must be greater than the one before it."""
    because: str = ""
    """What decides the length, in words for messages."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"list of {self.item.name}"

    def read(self, where: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not self.shortest <= len(value) <= self.longest:
            raise self.refuse(where, value)
        read = tuple(
            self.item.read(f"{where}[{i}]" if self.item.is_table else where, item)
            for i, item in enumerate(value)
        )
        if self.increasing:
            for lower, upper in pairwise(read):
                if upper <= lower:
                    raise FieldError(where, f"must increase, but {upper} follows {lower}")
        return read

    @property
    def allowed(self) -> str:
        count = str(self.longest) if self.shortest == self.longest else f"{self.shortest} to {self.longest}"
        because = f" for {self.because}" if self.because else ""
        return f"a list of {count} values{because}, each {self.item.allowed}"

    @property
    def unit(self) -> str:
        return self.item.unit

    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.item.schema(), "maxItems": self.longest}
        if self.shortest:
            schema["minItems"] = self.shortest
        if self.increasing:
            schema["description"] = "increasing"
        return schema

    def show(self, value: Any) -> str:
        return f"[{', '.join(map(self.item.show, value))}]"


@dataclass(frozen=True)
class OneOrMore(ListOf):
    """A list, or one value of it alone. `read` returns a tuple in both cases."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.item.name} or {super().name}"

    def read(self, where: str, value: object) -> tuple[Any, ...]:
        if isinstance(value, list | tuple):
            return super().read(where, value)
        return (self.item.read(where, value),)

    @property
    def allowed(self) -> str:
        return f"{self.item.allowed}, or {super().allowed}"

    def schema(self) -> Schema:
        return {"anyOf": [self.item.schema(), super().schema()]}


@dataclass(frozen=True)
class MapOf(Kind):
    """An object from names to values."""

    name: ClassVar[str] = "object"
    key: Text
    value: Kind
    most: int
    """Maximum number of names."""

    def read(self, where: str, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping) or len(value) > self.most:
            raise self.refuse(where, value)
        return {
            self.key.read(where, key): self.value.read(f"{where}.{key}", item) for key, item in value.items()
        }

    @property
    def allowed(self) -> str:
        return f"an object of at most {self.most} entries, each {self.value.allowed}"

    def schema(self) -> Schema:
        return {
            "type": "object",
            "maxProperties": self.most,
            "patternProperties": {f"^{self.key.pattern}$": self.value.schema()},
            "additionalProperties": False,
        }
