# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: one thread reads the store once a second, and every client gets the same bytes.

Lock discipline: `_condition` guards the fields that clients read. The thread reads the store
without the lock.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Generator
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from store.observed import events_after, newest_events
from store.sanctions import Sanction, all_sanctions
from webui.documents import event_document, snapshot
from webui.recent import RecentFlows

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
GLANCE_S = 0.2
"""The interval between two checks for changes that must not wait for the next second."""
KEPT_EVENTS = 500
GREETING_EVENTS = 60
"""How many past events a client gets if it names no last event."""
_LINGER_S = 10.0
"""How long the thread continues after the last client has left."""


class Live:
    """The live picture, shared by all clients. Its thread runs while there are clients."""

    def __init__(self, engine: Engine, recent: RecentFlows, stopping: threading.Event) -> None:
        self._engine = engine
        self._recent = recent
        self._stopping = stopping
        self._condition = threading.Condition()
        self._tick = 0
        self._frame = b""
        self._events: deque[tuple[int, bytes]] = deque(maxlen=KEPT_EVENTS)
        self._last_event_id: int | None = None
        self._clients = 0
        self._left_at = 0.0
        self._thread: threading.Thread | None = None

    def stream(
        self, last_event_id: int | None = None, count: int | None = None
    ) -> Generator[bytes, None, None]:
        """Yield frames for one client: past events that it lacks, then a snapshot each second and new events.

        Ends after `count` snapshots, or when the process stops.
        """
        self._join()
        try:
            yield b"retry: 1000\n\n"
            seen = yield from self._greeting(last_event_id)
            tick, sent = 0, 0
            while not self._stopping.is_set() and (count is None or sent < count):
                tick, seen, frames = self._next(tick, seen)
                if frames:
                    sent += 1
                    yield b"".join(frames)
        finally:
            self._leave()

    def _join(self) -> None:
        with self._condition:
            self._clients += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live", daemon=True)
                self._thread.start()

    def _leave(self) -> None:
        with self._condition:
            self._clients -= 1
            self._left_at = time.monotonic()

    def _greeting(self, last_event_id: int | None) -> Generator[bytes, None, int]:
        """Yield past events from the store; return the id of the last one."""
        if last_event_id is None:
            rows = newest_events(self._engine, GREETING_EVENTS)
        else:
            rows = events_after(self._engine, last_event_id, KEPT_EVENTS)
        if rows:
            yield b"".join(event_frame(row) for row in rows)
        return int(rows[-1]["id"]) if rows else (last_event_id or 0)

    def _next(self, tick: int, seen: int) -> tuple[int, int, list[bytes]]:
        """Wait for the next tick. Return its number, the last event's id, and the frames (none
        after a timeout)."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._tick > tick or self._stopping.is_set(), timeout=5 * INTERVAL_S
            )
            if self._tick <= tick:
                return tick, seen, []
            fresh = [(number, frame) for number, frame in self._events if number > seen]
            frames = [*(frame for _, frame in fresh), self._frame]
            return self._tick, fresh[-1][0] if fresh else seen, frames

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            frame, events = self._look()
            with self._condition:
                self._tick += 1
                self._frame = frame
                self._events.extend(events)
                self._condition.notify_all()
                if not self._clients and time.monotonic() - self._left_at > _LINGER_S:
                    self._thread = None
                    return
            self._wait(began + INTERVAL_S)
        with self._condition:
            self._condition.notify_all()

    def _wait(self, until: float) -> None:
        """Wait for the next second, or until a host is demoted or restored: clients get that at once."""
        before = self._demoted()
        while not self._stopping.wait(min(GLANCE_S, max(0.05, until - time.monotonic()))):
            if time.monotonic() >= until or self._demoted() != before:
                return

    def _demoted(self) -> list[Sanction]:
        try:
            return all_sanctions(self._engine)
        except SQLAlchemyError:
            return []  # the next snapshot reports it

    def _look(self) -> tuple[bytes, list[tuple[int, bytes]]]:
        try:
            frame = sse_frame("snapshot", snapshot(self._engine, self._recent))
            return frame, [(row["id"], event_frame(row)) for row in self._fresh_events()]
        except SQLAlchemyError as error:
            log.error("the store failed: %s", error)
            return sse_frame("trouble", {"problem": "the store does not answer"}), []
        except Exception:
            # A defect in one snapshot must not end the stream of every dashboard.
            log.exception("the live picture could not be drawn")
            return sse_frame(
                "trouble", {"problem": "an internal error; the server's log has the details"}
            ), []

    def _fresh_events(self) -> list[Any]:
        if self._last_event_id is None:
            rows = newest_events(self._engine, KEPT_EVENTS)
        else:
            rows = events_after(self._engine, self._last_event_id)
        self._last_event_id = rows[-1]["id"] if rows else (self._last_event_id or 0)
        return list(rows)


def event_frame(row: Any) -> bytes:
    return sse_frame("event", event_document(row), row["id"])


def sse_frame(name: str, document: Any, identity: int | None = None) -> bytes:
    """Return one message in the text/event-stream format (WHATWG HTML, section 9.2)."""
    head = f"id: {identity}\n" if identity is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()
