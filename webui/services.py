# SPDX-License-Identifier: Apache-2.0
"""The objects that the views work with, and among them the live picture that every dashboard gets.

One thread reads the store once a second, and every client gets the same bytes as server-sent events. The server sends
the frames without a thread (webui/bridge.py). A plain WSGI server iterates over the stream.

Lock discipline of `Live`: `_condition` guards the fields that clients read. The thread reads the store without the
lock.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flask import current_app
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.store.heartbeats import MOST_AGENTS
from sluice.store.observed import events_after, newest_events
from sluice.store.totals import Tally
from sluice.webui.api import ApiError
from sluice.webui.authority import Authority
from sluice.webui.figures import RecentFlows
from sluice.webui.ingestion import Heartbeats, Ingestion
from sluice.webui.problems import Refusals

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
KEPT_EVENTS = 500
GREETING_EVENTS = 60
"""How many past events a client gets if it names no last event."""
_LINGER_S = 10.0
"""How long the thread continues after the last client has left."""


class Live:
    """The live picture, shared by all clients. Its thread runs while there are clients."""

    def __init__(
        self, engine: Engine, picture: Callable[[], dict[str, Any]], stopping: threading.Event
    ) -> None:
        """`picture` returns the network's state as a document."""
        self._engine = engine
        self._picture = picture
        self.stopping = stopping
        """Set when the process must end. Every waiting thread then stops waiting."""
        self._condition = threading.Condition()
        self._tick = 0
        self._frame = b""
        self._events: deque[tuple[int, bytes]] = deque(maxlen=KEPT_EVENTS)
        self._last_event_id: int | None = None
        self._greeted: tuple[int, bytes, int] | None = None
        self._clients = 0
        self._left_at = 0.0
        self._thread: threading.Thread | None = None
        self._listeners: list[Callable[[], None]] = []

    def stream(
        self,
        last_event_id: int | None = None,
        count: int | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> EventStream:
        """Return the stream of one client, which ends after `count` snapshots. `on_close` is called when it closes."""
        if last_event_id is None:
            greeting, seen = self._greeting()
        else:
            greeting, newest = _frames(events_after(self._engine, last_event_id, KEPT_EVENTS))
            seen = max(newest, last_event_id)
        return EventStream(self, greeting, seen, count, on_close)

    def _greeting(self) -> tuple[bytes, int]:
        """Return the newest events' frames and the last one's id. Clients of the same tick get the same ones."""
        with self._condition:
            tick = self._tick
            if self._greeted and self._greeted[0] == tick and self._thread is not None:
                return self._greeted[1:]
        frames, seen = _frames(newest_events(self._engine, GREETING_EVENTS))
        with self._condition:
            self._greeted = (tick, frames, seen)
        return frames, seen

    def call_at_ticks(self, called: Callable[[], None]) -> None:
        """Call this function, in another thread, each time there is something new."""
        self._listeners.append(called)

    def join(self) -> int:
        """Note a new client. Returns the tick after which it gets pictures: one from before an idle time is old."""
        with self._condition:
            self._clients += 1
            if self._thread is not None:
                return max(0, self._tick - 1)
            self._thread = threading.Thread(target=self._run, name="live", daemon=True)
            self._thread.start()
            return self._tick

    def leave(self) -> None:
        """Note that a client has gone."""
        with self._condition:
            self._clients -= 1
            self._left_at = time.monotonic()

    def wait_for(self, tick: int) -> None:
        """Wait until there is something newer than this tick, for some seconds at most."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._tick > tick or self.stopping.is_set(), timeout=5 * INTERVAL_S
            )

    def since(self, tick: int, seen: int) -> tuple[int, int, list[bytes]]:
        """Return the number of the newest tick, the last event's id, and the frames since that tick and event."""
        with self._condition:
            if self._tick <= tick:
                return tick, seen, []
            fresh = [(number, frame) for number, frame in self._events if number > seen]
            frames = [*(frame for _, frame in fresh), self._frame]
            return self._tick, fresh[-1][0] if fresh else seen, frames

    def _run(self) -> None:
        while not self.stopping.is_set():
            began = time.monotonic()
            frame, events = self._look()
            with self._condition:
                self._tick += 1
                self._frame = frame
                self._events.extend(events)
                self._condition.notify_all()
                self._tell()
                if not self._clients and time.monotonic() - self._left_at > _LINGER_S:
                    self._thread = None
                    return
            self.stopping.wait(max(0.05, began + INTERVAL_S - time.monotonic()))
        with self._condition:
            self._condition.notify_all()
            self._tell()

    def _tell(self) -> None:
        for called in self._listeners:
            called()

    def _look(self) -> tuple[bytes, list[tuple[int, bytes]]]:
        try:
            frame = sse_frame("snapshot", self._picture())
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


def _frames(rows: Sequence[Any]) -> tuple[bytes, int]:
    """Return a stream's first frames, with these events, and the last one's id; 0 if there is none."""
    frames = b"".join([b"retry: 1000\n\n", *(event_frame(row) for row in rows)])
    return frames, int(rows[-1]["id"]) if rows else 0


def event_frame(row: Mapping[str, Any]) -> bytes:
    return sse_frame("event", {key: row[key] for key in ("id", "at", "kind", "document")}, row["id"])


def sse_frame(name: str, document: Any, identity: int | None = None) -> bytes:
    """Return one message in the text/event-stream format (WHATWG HTML, section 9.2)."""
    head = f"id: {identity}\n" if identity is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()


class EventStream:
    """The frames for one client: past events that it lacks, then a snapshot each second and new events.

    It ends after `count` snapshots, or when the process stops.
    """

    def __init__(
        self, live: Live, greeting: bytes, seen: int, count: int | None, on_close: Callable[[], None]
    ):
        """`seen`: id of the last event that the greeting has."""
        self.greeting = greeting
        self._live, self._seen, self._on_close = live, seen, on_close
        self._left = count
        self._is_open = True
        self._tick = live.join()

    @property
    def is_over(self) -> bool:
        return self._live.stopping.is_set() or self._left == 0

    def fresh(self) -> bytes:
        """Return what is new since the last call; empty if nothing is."""
        self._tick, self._seen, frames = self._live.since(self._tick, self._seen)
        if frames and self._left is not None:
            self._left -= 1
        return b"".join(frames)

    def __iter__(self) -> Iterator[bytes]:
        yield self.greeting
        while not self.is_over:
            self._live.wait_for(self._tick)
            if frames := self.fresh():
                yield frames

    def close(self) -> None:
        """Leave. A second time changes nothing."""
        if self._is_open:
            self._is_open = False
            self._live.leave()
            self._on_close()


MOST_STREAMS = 1000
SHARE_WITHOUT_TOKEN = 0.0625
"""The share of the streams that clients without a token may have."""


class StreamPlaces:
    """Counts the open event streams of this process. Thread-safe."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = {True: most, False: max(1, int(most * SHARE_WITHOUT_TOKEN))}
        self._free = {has_token: threading.Semaphore(number) for has_token, number in self._most.items()}

    def take(self, has_token: bool) -> Callable[[], None]:
        """Take a place. Returns the function that gives it back, once. Raises ApiError 429 if there is none."""
        if not self._free[has_token].acquire(blocking=False):
            whose, remedy = ("with", "") if has_token else ("without", "send a token, or ")
            raise ApiError(
                429,
                "too-many-streams",
                f"{self._most[has_token]} event streams {whose} a token are open already; try again later, "
                f"{remedy}raise the setting most_streams",
            )
        taken = [self._free[has_token]]

        def leave() -> None:
            with suppress(IndexError):  # it has been given back
                taken.pop().release()

        return leave


class SharedAnswer:
    """An answer for all who ask within a moment, so that many requests ask the store a few times. Thread-safe."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._lock = threading.Lock()
        self._made_s = -keep_s
        self._answer: bytes | Exception = b""

    def get(self, make: Callable[[], bytes]) -> bytes:
        """Return the answer that is younger than `keep_s`, or else make one.

        What `make` raises is an answer, too: those who wait for a store that is away need not each ask it.
        """
        with self._lock:
            if time.monotonic() - self._made_s >= self._keep_s:
                try:
                    self._answer = make()
                except Exception as error:
                    self._answer = error
                self._made_s = time.monotonic()
            answer = self._answer
        if isinstance(answer, Exception):
            raise answer
        return answer


EXTENSION = "sluice"
HEALTH_S = 0.5
"""How old an answer about the health may be. To make one, the store is asked six times, and all heartbeats are read."""


class Services:
    """What the views of an application work with."""

    def __init__(
        self,
        engine: Engine,
        token: str,
        recent: RecentFlows,
        live: Live,
        *,
        authority: Authority | None = None,
        hosts: frozenset[str] = frozenset(),
        most_streams: int = MOST_STREAMS,
        most_agents: int = MOST_AGENTS,
        run_manager: Path | None = None,
    ) -> None:
        """`hosts`: the names under which this process answers.

        `authority` certifies agents of other machines; None: there are none. `run_manager`: the socket of the process
        that starts and lists runs; None: this web process has no folder of runs.
        """
        self.engine, self.token, self.recent, self.live = engine, token, recent, live
        self.authority, self.hosts, self.run_manager = authority, hosts, run_manager
        self.stopping = live.stopping
        self.ingestion, self.heartbeats = Ingestion(engine), Heartbeats(engine, most_agents)
        self.refusals, self.streams = Refusals(engine), StreamPlaces(most_streams)
        self.health = SharedAnswer(HEALTH_S)
        self.tally = Tally()
        """Counts of this process; housekeeping adds them to the store's totals within a second."""


def services() -> Services:
    """Return the services of the application that serves the request."""
    shared: Services = current_app.extensions[EXTENSION]
    return shared
