# SPDX-License-Identifier: Apache-2.0
"""What a congestion control saw and did, window by window: the log of a socket (bpf/windows.h).

    log = WindowLog()
    log.follow(sock)            # from now on; the newest 256 windows are kept
    ...
    for window in log.read(sock):
        print(window.at_ns, window.alpha_q20, window.cwnd)

For root. Sockets that nobody follows keep no log.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from types import TracebackType

from dataplane.loader import load

_RECORD = struct.Struct("=7Q18I")
_HEADER = struct.Struct("=II")
KEPT = 256

SLOW_START, HAS_DEADLINE, HAS_SIZE = 1, 2, 4
"""Bits of `Window.flags`."""


@dataclass(frozen=True, slots=True)
class Window:
    """One window of data: what the law was given at its end, and what it answered. Fields as in laws/control.h."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    acked_bytes: int
    """In this window."""
    took_us: int
    remaining_bytes: int
    """Of the flow, at the end of the window."""
    left_ns: int
    """Until the deadline; 0: there is none, or it has passed (see `flags`)."""
    elapsed_ns: int
    """Since the flow began."""
    rate_bytes_per_s: int
    """Averaged."""
    acked: int
    """Packets of the window."""
    marked: int
    """Of those."""
    cwnd: int
    """Packets, at the end of the window."""
    rtt_us: int
    """Smoothed."""
    mss_bytes: int
    flags: int
    random: int
    phase: int
    """0 sending, 1 suspended, 2 killed: after this window, as all that follows."""
    alpha_q20: int
    urgency_q16: int
    precedence_q16: int
    penalty_q20: int
    """p: a mark cuts to cwnd * (1 - p / 2)."""
    cuts: int
    """So far; the last one went from `cut_from` to `cut_to` packets."""
    cut_from: int
    cut_to: int
    cut_penalty_q20: int
    """Penalty in force until this window's end."""
    bound: int
    """Of cwnd, in packets; 0: none."""
    unused: int = 0


class WindowLog:
    """Access to the logs; a context manager. A log lives as long as its socket."""

    def __init__(self) -> None:
        """Raises EnvironmentLacking when BPF cannot be used here."""
        self._object = load("cc_dctcp")  # any of them: the map is the machine's
        self._map = self._object.map("sluice_log_1")

    def follow(self, sock: socket.socket) -> None:
        """Keep a log of this socket from now on; an earlier one begins anew."""
        self._map.update(sock.fileno(), bytes(self._map.value_size))

    def read(self, sock: socket.socket) -> list[Window]:
        """The windows since `follow`, in order, at most the newest 256; KeyError for a socket that is not followed."""
        value = self._map.lookup(sock.fileno())
        if value is None:
            raise KeyError(f"socket {sock.fileno()} is not followed")
        count, _ = _HEADER.unpack_from(value)
        return [self._record(value, number) for number in range(max(0, count - KEPT), count)]

    def _record(self, value: bytes, number: int) -> Window:
        return Window(*_RECORD.unpack_from(value, _HEADER.size + number % KEPT * _RECORD.size))

    def close(self) -> None:
        """Idempotent."""
        self._object.close()

    def __enter__(self) -> WindowLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
