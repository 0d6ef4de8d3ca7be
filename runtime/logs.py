# SPDX-License-Identifier: Apache-2.0
"""Keeps the logs of child processes short. They are opened for appending, so they can be cut while a process writes."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024


def keep_short(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Cut every log of a folder that is longer than this. NAME.log.1 has its content so far, and no older one.

    Lines that a process writes in this moment may be lost. A disk without room loses the old content, not the new.
    """
    for path in folder.glob("*.log"):
        try:
            if path.stat().st_size <= most_bytes:
                continue
            before = path.with_name(f"{path.name}.1")
            try:
                shutil.copyfile(path, before)
            except OSError:
                before.unlink(missing_ok=True)
            os.truncate(path, 0)
        except OSError as error:
            log.warning("cannot shorten %s: %s", path, error.strerror)
