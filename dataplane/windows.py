# SPDX-License-Identifier: Apache-2.0
"""The log of a socket's congestion control: its inputs and decisions, window by window (bpf/windows.h).

    log = WindowLog()
    log.follow(sock)            # the log keeps the newest 128 windows
    ...
    for window in log.read(sock):
        print(window.at_ns, window.alpha_q20, window.cwnd)

This needs root. A socket that is not followed keeps no log.
"""

import socket
import struct
from dataclasses import dataclass

from sluice.dataplane.libbpf import Resource
from sluice.dataplane.loader import load

_RECORD = struct.Struct("=7Q18I")
_HEADER = struct.Struct("=II")
KEPT = 128

SLOW_START, HAS_DEADLINE, HAS_SIZE = 1, 2, 4
"""Bits of `Window.flags`."""


@dataclass(frozen=True, slots=True)
class Window:
    """One window of data: the law's inputs at its end, and its decision. The fields are those of laws/control.h."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    acked_bytes: int
    """Bytes acknowledged in this window."""
    took_us: int
    remaining_bytes: int
    """Remaining bytes of the flow at the end of the window."""
    left_ns: int
    """Time until the deadline. 0: there is none, or it has passed (see `flags`)."""
    elapsed_ns: int
    """Time since the flow began."""
    rate_bytes_per_s: int
    """Average rate."""
    acked: int
    """Acknowledged packets of the window."""
    marked: int
    """Marked packets among them."""
    cwnd: int
    """Congestion window in packets, at the end of the window."""
    rtt_us: int
    """Smoothed round-trip time."""
    mss_bytes: int
    flags: int
    random: int
    phase: int
    """Phase after this window: 0 sending, 1 suspended, 2 killed. The following fields are values after it, too."""
    alpha_q20: int
    urgency_q16: int
    precedence_q16: int
    penalty_q20: int
    """Penalty p. A mark cuts cwnd to cwnd * (1 - p / 2)."""
    cuts: int
    """Cuts so far. The last one was from `cut_from` to `cut_to` packets."""
    cut_from: int
    cut_to: int
    cut_penalty_q20: int
    """Penalty that applied until this window's end."""
    bound: int
    """Upper bound of cwnd in packets. 0: none."""
    growth: int = 1
    """Packets by which a window without marks grows."""


class WindowLog(Resource):
    """Access to the logs. A log lives as long as its socket."""

    def __init__(self) -> None:
        """Raises EnvironmentLacking when BPF cannot be used here."""
        self._object = load("cc_dctcp")  # any control: all share the machine's one map
        self._map = self._object.map("sluice_log_2")

    def follow(self, sock: socket.socket) -> None:
        """Start a log of this socket. An earlier log is deleted."""
        self._map.update(sock.fileno(), bytes(self._map.value_size))

    def read(self, sock: socket.socket) -> list[Window]:
        """Return the windows since `follow` in order, at most the newest 128. KeyError: the socket is not followed."""
        value = self._map.lookup(sock.fileno())
        if value is None:
            raise KeyError(f"socket {sock.fileno()} is not followed")
        count, _ = _HEADER.unpack_from(value)
        places = [number % KEPT for number in range(max(0, count - KEPT), count)]
        return [Window(*_RECORD.unpack_from(value, _HEADER.size + place * _RECORD.size)) for place in places]

    def close(self) -> None:
        self._object.close()
