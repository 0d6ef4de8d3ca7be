# SPDX-License-Identifier: Apache-2.0
"""Checks that a program gives numbers. The message for a text such as "5ms" shows the number to write."""

import operator
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sluice.hostagent.sockets.errors import WrongField

_QUANTITY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*")
_SECONDS: Mapping[str, float] = {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
_BYTES: Mapping[str, float] = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}


def seconds(field: str, value: Any) -> float:
    """Return a number of seconds. Raises WrongField for anything that is no number."""
    if isinstance(value, timedelta):
        raise WrongField(
            field, f"must be a number of seconds, not a timedelta: write {value.total_seconds():g}"
        )
    return _number(field, value, "a number of seconds", _SECONDS)


def plain(field: str, value: Any) -> float:
    """Return a number without a unit. Raises WrongField for anything that is no number."""
    return _number(field, value, "a number", {"": 1})


def whole_bytes(field: str, value: Any) -> int:
    """Return a whole number of bytes. Raises WrongField for anything else, also for the float 1e6."""
    what = "a whole number of bytes"
    if isinstance(value, bool):
        raise WrongField(field, f"must be {what}, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        number = _number(field, value, what, _BYTES)
    hint = f": write {number:.0f}" if number.is_integer() else ""
    raise WrongField(field, f"must be {what}, not {value!r}{hint}")


def _number(field: str, value: Any, what: str, units: Mapping[str, float]) -> float:
    if not isinstance(value, str | bytes | bool):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    # The hint says what to write instead of a text with a known unit.
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    scale = units.get(match[2].lower()) if match else None
    hint = "" if match is None or scale is None else f": write {float(match[1]) * scale:.15g}"
    raise WrongField(field, f"must be {what}, not {value!r:.80}{hint}")
