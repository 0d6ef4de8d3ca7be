# SPDX-License-Identifier: Apache-2.0
"""TOML from a user: every text that is no TOML gives one kind of error."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


class NotToml(ValueError):
    """The text is no TOML, or more than this reader takes. The message says where and why."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises NotToml."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise NotToml("it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits gives no TOMLDecodeError
        raise NotToml(str(error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises NotToml, and OSError if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NotToml(str(error)) from None
    return parse_toml(text)
