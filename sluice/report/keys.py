# SPDX-License-Identifier: Apache-2.0
"""Scenarios as keys and values, to say what runs have in common and where they differ."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

MAX_ITEMS = 8


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"fabric": {"hosts": 4}} as {"fabric.hosts": 4}; lists stay whole."""
    keys: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            keys |= flat(value, f"{prefix}{key}.")
        else:
            keys[f"{prefix}{key}"] = value
    return keys


def shown(value: object) -> str:
    """A value for people: lists of plain values whole when short; other lists by their entries."""
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
    """Long lists that differ must look different."""

    return f"{zlib.crc32(json.dumps(values, sort_keys=True, default=str).encode()):08x}"
