# SPDX-License-Identifier: Apache-2.0
"""The lines that a node prints: JSON behind a mark. Other lines on the stream, for example of a prolog, do no harm.

A point's lines are, in this order: its states, the pieces of its files, its end.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_MARK = b"sluice-staged "
PIECE_BYTES = 1 << 20
"""Of a file in one line."""


@dataclass(frozen=True)
class Message:
    """One line about a point. One of the optional fields is set."""

    point: str
    status: str | None = None
    """The content of its status file."""
    file: str | None = None
    """The name of a file of its bundle, of which `piece` is the next part, in base64."""
    piece: str = ""
    code: int | None = None
    """The exit code of the point. All its files have been sent."""

    @property
    def content(self) -> bytes:
        """The bytes of the piece."""
        return base64.b64decode(self.piece, validate=True)


def to_line(message: Message) -> bytes:
    fields = {name: value for name, value in asdict(message).items() if value not in (None, "")}
    return _MARK + json.dumps(fields).encode() + b"\n"


def from_line(line: bytes) -> Message | None:
    """Return the message of a line; None for a line of someone else."""
    if not line.startswith(_MARK):
        return None
    fields: dict[str, Any] = json.loads(line[len(_MARK) :])
    return Message(**fields)


def file_messages(point: str, path: Path) -> Iterator[Message]:
    """The messages that carry a file, at least one."""
    with path.open("rb") as source:
        piece = source.read(PIECE_BYTES)
        while True:
            yield Message(point, file=path.name, piece=base64.b64encode(piece).decode())
            piece = source.read(PIECE_BYTES)
            if not piece:
                return
