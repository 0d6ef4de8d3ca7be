# SPDX-License-Identifier: Apache-2.0
"""The event log: every event of the store as one line of JSON, in a file or on standard error.

    {"time": "2026-01-31T12:00:00.000Z", "at": 1769860800.0, "id": 17, "kind": "switch-connected", "document": {…}}

`id` counts up in one store; `document` depends on the kind. A file gets each event once, whatever was started anew
meanwhile: who opens it goes on after the last whole line, with another store at its first event. Of several processes
with the same file one writes, and another takes over when it dies (the kernel's lock on the file decides).
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Engine

from policy.errors import EnvironmentLacking
from store.observed import events_after, newest_events

STANDARD_ERROR = "-"
_TAIL_BYTES = 1_000_000
"""More than the longest line."""


class EventLog:
    """Follows the store's events; `write_new` now and then."""

    def __init__(self, engine: Engine, target: str) -> None:
        """`target`: a path, or "-" for standard error. EnvironmentLacking when the file cannot be written."""
        self._engine = engine
        self._to_file = target != STANDARD_ERROR
        self._file: BinaryIO = _opened(Path(target)) if self._to_file else sys.stderr.buffer
        self._last: int | None = None
        """Id of the last event written; None while another process writes."""

    def write_new(self) -> None:
        """Write what has come since the last time."""
        if self._last is None and not self._take_over():
            return
        while rows := events_after(self._engine, self._last or 0):
            self._file.write(b"".join(map(event_line, rows)))
            self._file.flush()
            self._last = int(rows[-1]["id"])

    def _take_over(self) -> bool:
        if not self._to_file:
            newest = newest_events(self._engine, 1)
            self._last = int(newest[0]["id"]) if newest else 0
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._last = self._continued(_mended(self._file))
        return True

    def _continued(self, line: Mapping[str, Any] | None) -> int:
        """The id after which to go on; 0 when the file's last line is another store's."""
        if line is None:
            return 0
        found = events_after(self._engine, line["id"] - 1, limit=1)
        # An event that has been forgotten since then has younger ones behind it.
        ours = bool(found) and (found[0]["id"] > line["id"] or found[0]["at"] == line["at"])
        return int(line["id"]) if ours else 0

    def close(self) -> None:
        if self._to_file:
            self._file.close()


def _opened(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab+")
    except OSError as error:
        raise EnvironmentLacking(
            f"cannot write the event log {path}: {error.strerror}; give another --event-log"
        ) from None


def _mended(file: BinaryIO) -> Mapping[str, Any] | None:
    """The last whole line, None when there is none. What a killed writer left of a line is cut off."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read()
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(size - len(tail) + len(whole))
    lines = whole.splitlines()
    if not lines:
        return None
    try:
        last = json.loads(lines[-1])
        return {"id": int(last["id"]), "at": float(last["at"])}
    except (ValueError, KeyError, TypeError):
        raise EnvironmentLacking(
            f"{file.name} does not end with a line of an event log: give another --event-log, or move it away"
        ) from None


def event_line(row: Mapping[str, Any]) -> bytes:
    """One event, keys in this order, without a line break inside."""
    when = datetime.fromtimestamp(row["at"], UTC).isoformat(timespec="milliseconds")
    document = {
        "time": when.replace("+00:00", "Z"),
        "at": row["at"],
        "id": row["id"],
        "kind": row["kind"],
        "document": row["document"],
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
