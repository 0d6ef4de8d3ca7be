# SPDX-License-Identifier: Apache-2.0
"""Kinds of values that hold other values: lists and objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from sluice.policy.errors import FieldError
from sluice.policy.kinds.kind import Kind, Schema
from sluice.policy.kinds.scalars import Text


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
        read = tuple(self.item.read(self._place(where, i), item) for i, item in enumerate(value))
        if self.increasing:
            for lower, upper in pairwise(read):
                if upper <= lower:
                    raise FieldError(where, f"must increase, but {upper} follows {lower}")
        return read

    @property
    def is_list_of_tables(self) -> bool:
        return self.item.is_table

    def _place(self, where: str, index: int) -> str:
        return f"{where}[{index}]" if self.item.is_table else where

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
