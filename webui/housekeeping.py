# SPDX-License-Identifier: Apache-2.0
"""A web worker's background tasks: keeping the store's clock, deleting old rows, adding its counts to
the totals, making partitions ahead of need, writing the event log."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.policy.errors import EnvironmentLacking
from sluice.policy.retention import Retention
from sluice.store import ages
from sluice.store.connections import end_stuck_copies
from sluice.store.failures import probe
from sluice.store.observed import events_after, newest_events
from sluice.store.partitions import make_ahead
from sluice.store.retention import STEP_ROWS_POSTGRESQL, forget_some
from sluice.store.totals import Tally, flush
from sluice.webui.ingestion import Ingestion

log = logging.getLogger(__name__)

EVERY_S = 0.5
FORGET_EVERY_S = 10.0
CLOCK_EVERY_S = 1.0
STUCK_EVERY_S = 5.0
REST_S = 0.02
"""The pause between two transactions that delete rows: other writers go first."""


class Housekeeping(threading.Thread):
    """Runs until `stopping` is set. While the store fails, it tries again each turn and logs the
    failure once."""

    def __init__(
        self,
        engine: Engine,
        tally: Tally,
        ingestion: Ingestion,
        stopping: threading.Event,
        retention: Retention,
        event_log: EventLog | None = None,
    ) -> None:
        super().__init__(name="housekeeping", daemon=True)
        self._engine = engine
        self._tally = tally
        self._ingestion = ingestion
        self._stopping = stopping
        self._retention = retention
        self._event_log = event_log
        self._forget_due = self._clock_due = time.monotonic()
        self._away = False

    def run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self.turn()
        self.turn()
        if self._event_log:
            self._event_log.close()

    def turn(self) -> None:
        """Do every task that is due."""
        try:
            with self._ingestion.alone():
                if time.monotonic() >= self._clock_due:
                    probe(self._engine)
                    self._clock_due = time.monotonic() + CLOCK_EVERY_S
                flush(self._engine, self._tally)
            if self._engine.dialect.name == "postgresql":
                make_ahead(self._engine)
            if self._event_log:
                self._event_log.write_new()
            if time.monotonic() >= self._forget_due and not self._stopping.is_set():
                while self._forget_some() and not self._stopping.wait(REST_S):
                    pass
                self._forget_due = time.monotonic() + FORGET_EVERY_S
        except SQLAlchemyError as error:
            if not self._away:
                log.warning("the store does not answer; the next turn tries again: %s", error)
            self._away = True
        except OSError as error:
            if not self._away:
                log.error("cannot write the event log; the next turn tries again: %s", error)
            self._away = True
        else:
            self._away = False

    def _forget_some(self) -> int:
        """Delete some of the old rows, and return their number."""
        age_s = ages.age_s(self._engine)
        if self._engine.dialect.name == "postgresql":
            return forget_some(self._engine, self._retention, age_s, STEP_ROWS_POSTGRESQL)
        with self._ingestion.alone():
            return forget_some(self._engine, self._retention, age_s)


# ── The event log ────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Every event of the store as one line of JSON, in a file or on standard error.
#
#     {"time": "2026-01-31T12:00:00.000Z", "at": 1769860800.0, "id": 17, "kind": "switch-connected", "document": {…}}
#
# `id` counts up within one store; the keys of `document` depend on the kind. A file gets each event
# once, also across restarts: a process that opens the file continues after its last whole line. If
# that line is from another store, the process starts at this store's first event. If several
# processes have the same file, the one with the kernel's lock on it writes. When that process dies,
# another takes over.


STANDARD_ERROR = "-"
_TAIL_BYTES = 1_000_000
"""More than the length of the longest line."""


class EventLog:
    """Writes the store's new events. The owner calls `write_new` at intervals."""

    def __init__(self, engine: Engine, target: str) -> None:
        """`target` is a path, or "-" for standard error. Raises EnvironmentLacking if the file
        cannot be written."""
        self._engine = engine
        self._to_file = target != STANDARD_ERROR
        self._file: BinaryIO = sys.stderr.buffer
        self._last: int | None = None
        """Id of the last event written; None while another process writes."""
        if self._to_file:
            path = Path(target)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("ab+", buffering=0)
            except OSError as error:
                raise EnvironmentLacking(
                    f"cannot write the event log {path}: {error.strerror}; give another --event-log"
                ) from None

    def write_new(self) -> None:
        """Write the events that are new since the last call."""
        if self._last is None and not self._take_over():
            return
        while rows := events_after(self._engine, self._last or 0):
            self._write(b"".join(map(event_line, rows)))
            self._last = int(rows[-1]["id"])

    def _write(self, lines: bytes) -> None:
        """Write the lines. If the disk does not take them all, the next call continues after the last whole one."""
        try:
            if self._file.write(lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._file.flush()
        except OSError:
            self._last = None
            raise

    def _take_over(self) -> bool:
        if not self._to_file:
            newest = newest_events(self._engine, 1)
            self._last = int(newest[0]["id"]) if newest else 0
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        line = _mended(self._file)
        if line is None:
            self._last = 0
            return True
        events = events_after(self._engine, line["id"] - 1, limit=1)
        # If the line's event has been deleted since, the store holds only younger ones.
        is_ours = bool(events) and (events[0]["id"] > line["id"] or events[0]["at"] == line["at"])
        self._last = int(line["id"]) if is_ours else 0
        return True

    def close(self) -> None:
        if self._to_file:
            self._file.close()


def _mended(file: BinaryIO) -> Mapping[str, Any] | None:
    """Return the last whole line, or None. Cuts off an incomplete line that a killed writer left."""
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
            f"{file.name} does not end with a line of an event log; give another --event-log, or move the file away"
        ) from None


def event_line(row: Mapping[str, Any]) -> bytes:
    """Return one event as a line: the keys in this order, without a line break inside."""
    when = datetime.fromtimestamp(row["at"], UTC).isoformat(timespec="milliseconds")
    document = {
        "time": when.replace("+00:00", "Z"),
        **{key: row[key] for key in ("at", "id", "kind", "document")},
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def free_stuck_copies(engine: Engine, stopping: threading.Event) -> None:
    """Free the store every STUCK_EVERY_S from workers that are stopped amid a delivery, until `stopping` is set.

    It is of use with PostgreSQL only. It needs a thread of its own, because housekeeping waits for this worker's
    delivery, and that may wait for the stopped one.
    """
    while not stopping.wait(STUCK_EVERY_S):
        try:
            ended = end_stuck_copies(engine)
        except SQLAlchemyError:
            continue  # housekeeping reports a store that does not answer
        if ended:
            log.warning("ended %d connections to the store that had stopped amid a delivery", ended)
