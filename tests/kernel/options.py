# SPDX-License-Identifier: Apache-2.0
"""The raw options of include/sluice.h, for the tests of the hook."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

from sluice.dataplane.sockopt import SLUICE_FLOW, SLUICE_STATE, SOL_SLUICE

FLOW = struct.Struct("=IIQqQII16s")  # include/sluice.h
STATE = struct.Struct("=IIQQQIIIIIIII")
SIZE, DEADLINE, IMPORTANCE, QUENCH, CONTROL = 1, 2, 4, 8, 16
FULL = (SIZE | DEADLINE | IMPORTANCE | QUENCH, 2, 200_000, 25_000_000_000, 3_000_000, 2500, 250, b"")


def declare(sock: socket.socket, *values: int | bytes) -> None:
    sock.setsockopt(SOL_SLUICE, SLUICE_FLOW, FLOW.pack(*values))


def declare_size(sock: socket.socket, size_bytes: int) -> None:
    declare(sock, SIZE, 0, size_bytes, 0, 0, 0, 0, b"")


def declared(sock: socket.socket) -> tuple[Any, ...]:
    """Return the fields of the flow, in the order of the header. The last one is bytes, the others are numbers."""
    return FLOW.unpack(sock.getsockopt(SOL_SLUICE, SLUICE_FLOW, FLOW.size))


def acked_bytes(sock: socket.socket) -> int:
    return int(STATE.unpack(sock.getsockopt(SOL_SLUICE, SLUICE_STATE, STATE.size))[2])


def has_acked(sock: socket.socket, size_bytes: int) -> bool:
    return acked_bytes(sock) == size_bytes


def control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def tcp_state(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0]


def refusal(action: Callable[[], object]) -> int:
    """Return the errno of an action, 0 if it succeeds."""
    try:
        action()
    except OSError as error:
        return error.errno or 0
    return 0
