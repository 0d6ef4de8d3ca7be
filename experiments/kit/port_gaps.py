# SPDX-License-Identifier: Apache-2.0
"""Gaps in a busy port's service, found by reading its packet counter every few milliseconds."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.002
WORTH_TELLING_S = 0.05


@dataclass(frozen=True)
class Gap:
    """A time without any packet."""

    ended_at: float
    """Epoch seconds."""
    length_s: float


class Looks:
    """Gaps between readings of a counter. Pure: the time is an argument.

    A gap lasts from the first reading of a count to the last reading of the same count. A time
    without readings, because the machine was busy, is recorded separately and is no gap.
    """

    def __init__(self) -> None:
        self.longest_gap_s = 0.0
        """The longest gap since the first packet."""
        self.longest_without_s = 0.0
        """The longest time between two readings. A gap may have been longer by this time."""
        self._packets: int | None = None
        self._looked_s = 0.0
        self._since_s: float | None = None

    def take(self, packets: int, now_s: float) -> float | None:
        """Record a count and the time of its reading. Returns the length of a gap that this reading ends."""
        if self._packets is None:
            self._packets, self._looked_s = packets, now_s
            return None
        before_s, self._looked_s = self._looked_s, now_s
        self.longest_without_s = max(self.longest_without_s, now_s - before_s)
        if packets == self._packets:
            return None
        gap_s = None if self._since_s is None else before_s - self._since_s
        self._packets, self._since_s = packets, now_s
        self.longest_gap_s = max(self.longest_gap_s, gap_s or 0.0)
        return gap_s


class PortGaps:
    """A context manager that watches an interface in a process's network namespace."""

    def __init__(self, pid: int, interface: str) -> None:
        self._file = Path(f"/proc/{pid}/net/dev")
        self._interface = interface
        self.looks = Looks()
        self.gaps: list[Gap] = []
        """The gaps of at least WORTH_TELLING_S."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="port-gaps", daemon=True)

    def __enter__(self) -> PortGaps:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            packets = sent_packets(self._file.read_text(), self._interface)
            gap_s = self.looks.take(packets, time.monotonic())
            if gap_s is not None and gap_s >= WORTH_TELLING_S:
                self.gaps.append(Gap(time.time(), gap_s))


def sent_packets(text: str, interface: str) -> int:
    """Return the packets that an interface has sent, from the text of /proc/net/dev. KeyError:
    unknown interface."""
    for line in text.splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == interface:
            return int(figures.split()[9])
    raise KeyError(interface)
