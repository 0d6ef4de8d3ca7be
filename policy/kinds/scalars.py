# SPDX-License-Identifier: Apache-2.0
"""Kinds of single values without a unit in the text: numbers, flags, texts and choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sluice.policy.errors import FieldError, guess
from sluice.policy.kinds.kind import Kind, Schema
from sluice.policy.lines import visible


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number between two bounds, which are allowed."""

    name: ClassVar[str] = "integer"
    low: int
    high: int
    of: str = ""
    """The unit."""

    def read(self, where: str, value: object) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise self.refuse(where, value)
        return value

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    @property
    def unit(self) -> str:
        return self.of

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
    of: str = ""
    """The unit."""
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

    @property
    def unit(self) -> str:
        return self.of

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
