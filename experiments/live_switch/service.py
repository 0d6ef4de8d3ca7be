# SPDX-License-Identifier: Apache-2.0
"""Does a busy port ever stand still? Looks every few milliseconds whether its interface has sent anything."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.002
WORTH_TELLING_S = 0.05


@dataclass(frozen=True)
class Gap:
    """A time without a packet."""

    ended_at: float
    """Epoch seconds."""
    length_s: float


class Service:
    """Watches an interface in a process's network namespace while it is entered; a context manager.

    The times are those of the looks: a look that comes late makes a gap seem longer, never shorter.
    """

    def __init__(self, pid: int, interface: str) -> None:
        self._file = Path(f"/proc/{pid}/net/dev")
        self._interface = interface
        self._longest_s = 0.0
        self.gaps: list[Gap] = []
        """Those of WORTH_TELLING_S and more."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="service", daemon=True)

    def __enter__(self) -> Service:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def longest_gap_s(self) -> float:
        """Until now, from the first packet that was seen to be sent."""
        return self._longest_s

    def _watch(self) -> None:
        packets, since = sent_packets(self._file.read_text(), self._interface), None
        while not self._stop.wait(LOOK_S):
            now_packets, now = sent_packets(self._file.read_text(), self._interface), time.monotonic()
            if now_packets == packets:
                continue
            if since is not None:
                self._note(now - since)
            packets, since = now_packets, now

    def _note(self, length_s: float) -> None:
        self._longest_s = max(self._longest_s, length_s)
        if length_s >= WORTH_TELLING_S:
            self.gaps.append(Gap(time.time(), length_s))


def sent_packets(text: str, interface: str) -> int:
    """Of /proc/net/dev."""
    for line in text.splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == interface:
            return int(figures.split()[9])
    raise KeyError(interface)
