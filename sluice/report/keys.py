# SPDX-License-Identifier: Apache-2.0
"""Scenarios as flat keys and values, for comparing runs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

MAX_ITEMS = 8


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return {"fabric": {"hosts": 4}} as {"fabric.hosts": 4}; lists stay whole."""
    keys: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            keys |= flat(value, f"{prefix}{key}.")
        else:
            keys[f"{prefix}{key}"] = value
    return keys


def shown(value: object) -> str:
    """Return a value as text. A short list of plain values is written in full, any other list as
    the number of its entries."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return _shown_list(value)
    return str(value)


def _shown_list(values: list[Any]) -> str:
    if len(values) > MAX_ITEMS:
        return f"{len(values)} entries ({_fingerprint(values)})"
    return " · ".join(_shown_entry(value) for value in values)


def _shown_entry(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(inner)}" for key, inner in value.items())
    return shown(value)


def _fingerprint(values: list[Any]) -> str:
    """Return a short hash, so that different long lists look different."""

    return f"{zlib.crc32(json.dumps(values, sort_keys=True, default=str).encode()):08x}"
