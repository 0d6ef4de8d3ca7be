# SPDX-License-Identifier: Apache-2.0
"""Files that a user names: TOML, where every text that is none gives one kind of error, and whether a path exists.

For a name that is too long, `pathlib` raises OSError instead of saying that there is no file.
"""

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
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows begin with a byte-order mark
    except UnicodeDecodeError as error:
        raise NotToml(str(error)) from None
    return parse_toml(text)


MOST_NAME_BYTES = 255
MOST_PATH_BYTES = 4095


def can_name_a_file(text: str) -> bool:
    """Return whether Linux takes the text as a path: not empty, no null character, and not too long."""
    data = text.encode(errors="surrogateescape")
    long = len(data) > MOST_PATH_BYTES or max(map(len, data.split(b"/"))) > MOST_NAME_BYTES
    return bool(text.strip()) and "\0" not in text and not long


def is_file(path: Path) -> bool:
    """Return whether there is a file at the path."""
    return can_name_a_file(str(path)) and path.is_file()


def exists(path: Path) -> bool:
    """Return whether there is anything at the path."""
    return can_name_a_file(str(path)) and path.exists()
