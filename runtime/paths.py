# SPDX-License-Identifier: Apache-2.0
"""For a name that is too long, `pathlib` raises OSError instead of saying that there is no file."""

from __future__ import annotations

from pathlib import Path

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
