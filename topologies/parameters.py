# SPDX-License-Identifier: Apache-2.0
"""Checked parameters of a topology: whole numbers within a range; anything else is an error that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policy.errors import FieldError


@dataclass(frozen=True)
class Parameter:
    """One whole number that a topology takes."""

    name: str
    default: int
    low: int
    high: int


LINK_PARAMETERS = (
    Parameter("host_rate_bps", 100_000_000, 1_000_000, 100_000_000_000),
    Parameter("core_rate_bps", 100_000_000, 1_000_000, 100_000_000_000),
    Parameter("link_delay_ns", 0, 0, 1_000_000_000),
    Parameter("host_delay_ns", 0, 0, 1_000_000_000),
)
"""What every topology takes. A link of a host has the host rate; its delay is link delay plus host delay."""


def checked(parameters: Mapping[str, Any], known: tuple[Parameter, ...]) -> dict[str, int]:
    """The given values over the defaults. Raises FieldError for an unknown name or a value out of range."""
    names = [parameter.name for parameter in known]
    for name in parameters:
        if name not in names:
            raise FieldError(name, f"is no parameter of this topology; there are {', '.join(names)}")
    return {p.name: _in_range(p, parameters.get(p.name, p.default)) for p in known}


def _in_range(parameter: Parameter, value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not parameter.low <= value <= parameter.high:
        allowed = f"must be a whole number from {parameter.low} to {parameter.high}, not {value!r}"
        raise FieldError(parameter.name, allowed)
    return int(value)
