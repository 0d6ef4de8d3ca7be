# SPDX-License-Identifier: Apache-2.0
"""One client's event stream.

The server sends the frames without a thread (webui/bridge.py). A plain WSGI server iterates over the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.webui.live import Live

STREAM = "sluice.event-stream"
"""Key of the WSGI environment: the stream that the server must send after the head of the answer."""
PLACE = "sluice.stream-place"
"""Key of the WSGI environment: the function that gives the place back which the server has taken for the stream."""


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
