# SPDX-License-Identifier: Apache-2.0
"""The state of a declared flow, as the kernel reports it."""

import math
import struct
from dataclasses import dataclass
from enum import StrEnum

STATE = struct.Struct("=IIQQQIIIIIIII")
"""struct sluice_state of dataplane/include/sluice.h, in the order of FlowState."""

_NO_RATE_SUFFICES = 2**64 - 1


class Phase(StrEnum):
    """Whether the kernel sends the flow. Only sluice_datcp suspends and kills flows."""

    SENDING = "sending"
    SUSPENDED = "suspended"
    """The kernel sends next to nothing until the network is lightly loaded."""
    KILLED = "killed"
    """The flow cannot meet its deadline. The kernel sends next to nothing from now on."""


_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True)
class FlowState:
    """A flow's progress. Under a congestion control that is not Sluice's, only acked_bytes is valid."""

    phase: Phase
    windows: int
    """Windows of data since the flow began."""
    acked_bytes: int
    """Bytes of this flow that the receiver's kernel has acknowledged."""
    rate_bytes_per_s: int
    """Averaged throughput."""
    wanted_bytes_per_s: float
    """The rate that meets the deadline from now on; math.inf if no rate would."""
    alpha: float
    """Averaged share of marked packets, 0 … 1."""
    urgency: float
    """UCP's s, D2TCP's d or DATCP's U: 1 for a flow without a deadline, larger for an urgent one."""
    precedence: float
    """DATCP's precedence P, from urgency and importance."""
    decrease: float
    """Share by which the next mark cuts the window, 0 … 1."""
    cwnd_packets: int
    """Congestion window."""
    cuts: int
    """Cuts of the window since the flow began."""
    quenches: int
    """How often the flow was suspended or killed."""
    resumes: int
    """How often a suspended flow continued."""


def unpack_state(value: bytes) -> FlowState:
    """Return the FlowState in a struct sluice_state, whose fractions are fixed-point numbers."""
    phase, windows, acked_bytes, rate, needed, alpha, urgency, precedence, decrease, *counts = STATE.unpack(
        value
    )
    return FlowState(
        _PHASES[phase],
        windows,
        acked_bytes,
        rate,
        math.inf if needed == _NO_RATE_SUFFICES else needed,
        alpha / 2**20,
        urgency / 2**16,
        precedence / 2**16,
        decrease / 2**16,
        *counts,
    )
