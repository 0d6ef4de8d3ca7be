# SPDX-License-Identifier: Apache-2.0
"""One client's event stream, and how many streams there may be.

The server's front sends the frames without a thread (webui/gateway.py). A plain WSGI server iterates over the stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from webui.errors import ApiError

if TYPE_CHECKING:
    from webui.live import Live

STREAM = "sluice.event-stream"
"""Key of the WSGI environment: the stream that the front must send after the head of the answer."""
MOST_STREAMS = 1000
SHARE_WITHOUT_TOKEN = 0.125
"""The share of the streams that clients without a token may have."""


class StreamPlaces:
    """Counts the open streams of this process. Thread-safe."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = {True: most, False: max(1, int(most * SHARE_WITHOUT_TOKEN))}
        self._open = {True: 0, False: 0}
        self._lock = threading.Lock()

    def take(self, has_token: bool) -> Callable[[], None]:
        """Take a place and return the function that gives it back. Raises ApiError 429 if there is none."""
        with self._lock:
            if self._open[has_token] >= self._most[has_token]:
                raise ApiError(429, "too-many-streams", self._problem(has_token))
            self._open[has_token] += 1
        return lambda: self._give_back(has_token)

    def _give_back(self, has_token: bool) -> None:
        with self._lock:
            self._open[has_token] -= 1

    def _problem(self, has_token: bool) -> str:
        remedy = (
            "raise the setting most_streams"
            if has_token
            else "send a token, or raise the setting most_streams"
        )
        whose = "with" if has_token else "without"
        return f"{self._most[has_token]} event streams {whose} a token are open already; try again later, {remedy}"


class EventStream:
    """The frames for one client: past events that it lacks, then a snapshot each second and new events.

    It ends after `count` snapshots, or when the process stops.
    """

    def __init__(
        self, live: Live, greeting: bytes, seen: int, count: int | None, on_close: Callable[[], None]
    ):
        """`seen`: id of the last event that the greeting has."""
        self.greeting = b"retry: 1000\n\n" + greeting
        self._live, self._seen, self._on_close = live, seen, on_close
        self._tick = 0
        self._left = count
        self._is_open = True
        live.join()

    @property
    def is_over(self) -> bool:
        return self._live.is_stopping or self._left == 0

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
