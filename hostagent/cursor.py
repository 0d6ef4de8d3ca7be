# SPDX-License-Identifier: Apache-2.0
"""How far a spool is delivered. The file has a fixed length and is written in place, so it needs no space later."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Position:
    """A place in the spool."""

    segment: int
    offset: int


class Cursor:
    """The file `cursor`: "7 12345", padded with spaces.

    If it cannot be written, a later process delivers records again. Their ids make that harmless.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def read(self) -> Position:
        """Return the position, the spool's begin if there is none, and reserve the file's space."""
        try:
            segment, offset = self._path.read_text().split()
            position = Position(int(segment), int(offset))
        except (OSError, ValueError):
            position = Position(0, 0)
        self.write(position)
        return position

    def write(self, position: Position) -> None:
        """Replace the position in one write of one sector."""
        line = f"{position.segment:<20d} {position.offset:<20d}\n".encode()
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.pwrite(self._file, line, 0)
        except OSError as error:
            log.warning("%s: cannot note what is delivered: %s", self._path, error.strerror)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
