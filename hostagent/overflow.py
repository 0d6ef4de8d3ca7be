# SPDX-License-Identifier: Apache-2.0
"""Lines that wait in memory because the disk does not take them. Beyond the bound, the oldest are dropped."""

from __future__ import annotations

import threading
from collections import deque

MOST_LINES = 20_000
"""About 12 MB."""


class Overflow:
    """A bounded queue of lines. Thread-safe: one thread adds, another delivers."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self._lines: deque[bytes] = deque(maxlen=most)
        self._lock = threading.Lock()
        self.dropped = 0
        """Number of lines that found no room."""

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: bytes) -> None:
        """Append a line. If the queue is full, the oldest one is dropped and counted."""
        with self._lock:
            self.dropped += len(self._lines) == self._lines.maxlen
            self._lines.append(line)

    def take(self, most: int) -> list[bytes]:
        """Remove and return the oldest lines, at most `most`."""
        with self._lock:
            return [self._lines.popleft() for _ in range(min(most, len(self._lines)))]

    def put_back(self, line: bytes) -> None:
        """Return the line that was taken last to the front. If the queue is full, it is dropped and counted."""
        with self._lock:
            if len(self._lines) == self._lines.maxlen:
                self.dropped += 1
            else:
                self._lines.appendleft(line)
