# SPDX-License-Identifier: Apache-2.0
"""A scheduled flow, told to the kernel on its socket, and how it fares (dataplane/include/sluice.h)."""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

from hostagent.schedule import ScheduledFlow

SOL_SLUICE, FLOW, STATE = 0x5C1C, 1, 2
_SIZE, _DEADLINE, _IMPORTANCE, _QUENCH = 1, 2, 4, 8
_NOBODY = (errno.ENOPROTOOPT, errno.EOPNOTSUPP)
"""The kernel's own answers to options that it does not know, set and get."""
_QUENCHES = {"never": 0, "kill": 1, "suspend": 2}
_TOLD = struct.Struct("@IIQqQII16s")
_STATE = struct.Struct("@IIQQQIIIIIIII")
PHASES = ("sending", "suspended", "killed")
KILLED = PHASES[2]


@dataclass(frozen=True, slots=True)
class State:
    """How a told flow fares, as its congestion control sees it; zeros before its first window."""

    phase: str
    windows: int
    rate_bytes_per_s: int
    wanted_bytes_per_s: int | None
    """None: more than can be."""
    alpha: float
    urgency: float
    precedence: float
    decrease: float
    cuts: int
    quenches: int
    resumes: int


def wishes(flow: ScheduledFlow) -> bool:
    """There is something to tell of this flow."""
    return flow.deadline_us is not None or flow.importance is not None


def tell(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Tell of the flow that is written next; False when nobody on this machine listens. OSError when it is refused."""
    try:
        sock.setsockopt(SOL_SLUICE, FLOW, _packed(flow))
    except OSError as error:
        if error.errno in _NOBODY:
            return False
        raise
    return True


def _packed(flow: ScheduledFlow) -> bytes:
    fields = quench = size_bytes = deadline_ns = importance_milli = share_milli = 0
    if flow.deadline_us is not None:
        fields |= _SIZE | _DEADLINE | _QUENCH
        size_bytes, deadline_ns = flow.bytes, round(flow.deadline_us * 1000)
        quench = _QUENCHES[flow.quench]
    if flow.importance is not None:
        fields |= _IMPORTANCE
        importance_milli = round(flow.importance * 1000)
        share_milli = round((flow.importance_share or 0) * 1000)
    return _TOLD.pack(fields, quench, size_bytes, deadline_ns, 0, importance_milli, share_milli, b"")


def state(sock: socket.socket) -> State | None:
    """None when nobody on this machine answers."""
    try:
        data = sock.getsockopt(SOL_SLUICE, STATE, _STATE.size)
    except OSError as error:
        if error.errno in _NOBODY:
            return None
        raise
    values = _STATE.unpack(data)
    phase, windows, _, rate, wanted, alpha, urgency, precedence, decrease, _, cuts, quenches, resumes = values
    return State(
        phase=PHASES[phase],
        windows=windows,
        rate_bytes_per_s=rate,
        wanted_bytes_per_s=None if wanted == 2**64 - 1 else wanted,
        alpha=alpha / 2**20,
        urgency=urgency / 2**16,
        precedence=precedence / 2**16,
        decrease=decrease / 2**16,
        cuts=cuts,
        quenches=quenches,
        resumes=resumes,
    )
