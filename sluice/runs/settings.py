# SPDX-License-Identifier: Apache-2.0
"""Keys that a command line changes: --set TABLE.KEY=VALUE of a scenario, KEY=VALUE of a policy."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.runtime.toml import NotToml, parse_toml


def changed(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the values of `settings`, by key ("fabric.buffer"). SluiceError names a wrong key."""
    made = copy.deepcopy(dict(document))
    for key, value in settings.items():
        _put(made, key, value)
    return made


def setting(text: str, option: str = "--set", example: str = "fabric.buffer=240KB") -> tuple[str, Any]:
    """Return `table.key=value` as a key and its value. SluiceError names the option and shows the example."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", key):
        raise SluiceError(f"{option} {text}: must be key=value, for example {option} {example}")
    return key, toml_value(value)


def toml_value(text: str) -> Any:
    """Return the TOML value. Other text stays text, so rto_min=2ms needs no quotes."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except NotToml:
        return text


def _put(resolved: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    table = resolved
    for step in path:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise SluiceError(f"--set {key}: {step} is not a table")
    table[last] = value
