# SPDX-License-Identifier: Apache-2.0
"""Reading a table of a document so that no key is overlooked: every error names the key and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy import units
from policy.errors import FieldError


class Table:
    """A table being read: every key taken once, what is left over is an error."""

    def __init__(self, path: str, values: object) -> None:
        if not isinstance(values, Mapping):
            raise FieldError(path, "must be a table")
        self.path = path
        self.left = dict(values)
        self.known: dict[str, None] = {}
        """Keys that were asked for, in that order."""

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, default: object = None) -> Any:
        self.known[key] = None
        return self.left.pop(key, default)

    def need(self, key: str) -> Any:
        if key not in self.left:
            raise FieldError(self.name(key), "is missing")
        return self.take(key)

    def text(self, key: str) -> str:
        value = self.need(key)
        if not isinstance(value, str) or not value:
            raise FieldError(self.name(key), f"must be text, not {value!r}")
        return value

    def number(self, key: str, default: float | None, low: float, high: float) -> float:
        value = self.need(key) if default is None else self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise FieldError(self.name(key), f"must be a number from {low:g} to {high:g}, not {value!r}")
        return value

    def whole(self, key: str, default: int | None, low: int, high: int) -> int:
        value = self.number(key, default, low, high)
        if not isinstance(value, int):
            raise FieldError(self.name(key), f"must be a whole number, not {value!r}")
        return value

    def time_ns(self, key: str, default: str | None) -> int:
        value = self.need(key) if default is None else self.take(key, default)
        return units.time_ns(self.name(key), value)

    def one_of(self, key: str, default: str | None, allowed: tuple[str, ...]) -> str:
        value = self.need(key) if default is None else self.take(key, default)
        if value not in allowed:
            raise FieldError(self.name(key), f"must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    def has(self, key: str) -> bool:
        self.known[key] = None
        return key in self.left

    def done(self) -> None:
        for key in self.left:
            raise FieldError(
                self.name(key), f"is not a key of a scenario here; there are {', '.join(self.known)}"
            )
