# SPDX-License-Identifier: Apache-2.0
"""Writes that wait for the store, each in the name of a time during which the controller led.

Rows for one function that wait together are written together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from sqlalchemy import Engine

P = ParamSpec("P")
Row = TypeVar("Row")


class Write(Protocol):
    def __call__(self, engine: Engine) -> None: ...

    def absorb(self, later: Write) -> bool:
        """Write the rows of a later write together with these.

        Returns whether that is possible.
        """


@dataclass
class Tenure:
    """A time during which this controller leads. It may take its own lease again with a greater generation."""

    generation: int
    ended: bool = False


@dataclass(frozen=True)
class Waiting:
    """A write, and the tenure in which it was recorded."""

    write: Write
    tenure: Tenure


class Call(Generic[P]):
    def __init__(
        self, function: Callable[Concatenate[Engine, P], object], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs

    def __call__(self, engine: Engine) -> None:
        self._function(engine, *self._args, **self._kwargs)

    def __str__(self) -> str:
        return f"{_name(self._function)}{self._args} {self._kwargs}"

    def absorb(self, later: Write) -> bool:
        return False


class Rows(Generic[Row]):
    def __init__(self, function: Callable[[Engine, list[Row]], object], rows: list[Row]) -> None:
        self._function, self._rows = function, rows

    def __call__(self, engine: Engine) -> None:
        self._function(engine, self._rows)

    def __str__(self) -> str:
        return f"{_name(self._function)}({self._rows})"

    def absorb(self, later: Write) -> bool:
        if not isinstance(later, Rows) or later._function is not self._function:
            return False
        self._rows.extend(later._rows)
        return True


def _name(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", function))
