# SPDX-License-Identifier: Apache-2.0
"""The setsockopt hook's cost to every other socket option of the machine: calls with and without
the hook, in turn."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from sluice.dataplane.sockopt import Attachment, answers

ROUNDS = 20
CALLS = 20_000

Call = Callable[[socket.socket], object]

CALLS_MEASURED: dict[str, Call] = {
    "setsockopt()": lambda sock: sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    "getsockopt()": lambda sock: sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
}


@dataclass(frozen=True)
class HookCost:
    """Nanoseconds per call, with Python's own share; the minimum over the rounds."""

    call: str
    without_ns: float
    with_ns: float


def measure_hook() -> list[HookCost]:
    """Measure the cost of each call. Empty if an agent's hook already serves this machine, because
    no baseline exists then."""
    if answers():
        return []
    return [_measure(name, call) for name, call in CALLS_MEASURED.items()]


def _measure(name: str, call: Call) -> HookCost:
    without, hooked = [], []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        for _ in range(ROUNDS):
            without.append(_ns_a_call(call, sock))
            with contextlib.closing(Attachment()):
                hooked.append(_ns_a_call(call, sock))
    return HookCost(name, min(without), min(hooked))


def _ns_a_call(call: Call, sock: socket.socket) -> float:
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call(sock)
    return (time.perf_counter_ns() - begin) / CALLS
