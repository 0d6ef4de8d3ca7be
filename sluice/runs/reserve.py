# SPDX-License-Identifier: Apache-2.0
"""Space that a run takes from the disk at its start, and gives back at its end, so that its bundle has room."""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

RESERVE_BYTES = 32 * 1024 * 1024
"""For the last records, and for the bundle of about 200,000 flows."""


class Reserve:
    """A file without content that holds space. `release` gives it back."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            log.warning("the disk has no %d MB to reserve for the bundle: %s", size >> 20, error.strerror)
            self.release()

    def release(self) -> None:
        """Give the space back. A second call does nothing."""
        self._path.unlink(missing_ok=True)
