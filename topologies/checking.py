# SPDX-License-Identifier: Apache-2.0
"""Checks of a topology's parameters, which a program gives in base units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sluice.policy.errors import FieldError, unknown_key
from sluice.policy.network.graph import Links
from sluice.policy.schema.entries import entries
from sluice.policy.schema.kinds import Quantity

Parameters = TypeVar("Parameters", bound=Links)


def checked(cls: type[Parameters], parameters: Mapping[str, Any]) -> Parameters:
    """Return the defaults with the given values. FieldError names the key as a scenario writes it."""
    known = {one.name: one for one in entries(cls)}
    for name in parameters:
        if name not in known:
            raise unknown_key(name, name, [one.key for one in known.values()])
    for one in known.values():
        if one.is_required and one.name not in parameters:
            raise FieldError(one.key, f"is missing; it must be {one.kind.allowed}")
    values = {}
    for name, value in parameters.items():
        kind = known[name].kind
        base = replace(kind, bare=True) if isinstance(kind, Quantity) else kind
        values[name] = base.read(known[name].key, value)
    return cls(**values)
