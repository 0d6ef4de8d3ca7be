# SPDX-License-Identifier: Apache-2.0
"""The socket options of declared flows: one call each to declare, to read back, and to read the state.

They work on any TCP socket that does not listen, IPv4 or IPv6, of any user. The state is as the kernel reports it.
"""

import errno
import math
import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Unpack

from sluice.hostagent.sockets import flow as fields
from sluice.hostagent.sockets.flow import DeclaredFlow, FlowFields, WrongField
from sluice.policy.errors import EnvironmentLacking

SOL_SLUICE = 0x5C1C
SLUICE_FLOW, SLUICE_STATE = 1, 2
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


class NoAgent(EnvironmentLacking):
    """No Sluice agent runs on this machine, so the kernel takes no declarations."""


class HasOptions(Protocol):
    """A socket.socket, or the transport socket that asyncio's get_extra_info("socket") returns."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...
    def setsockopt(self, level: int, optname: int, value: bytes, /) -> None: ...


def declare(sock: HasOptions, **flow: Unpack[FlowFields]) -> None:
    """Declare a new flow, which begins with the next byte that the program writes.

    Before connect(), the flow begins with the connection. A declaration replaces the previous one.

    Raises WrongField if a value is not allowed, if there is no field, or if no link could meet the
    deadline; NoAgent; and OSError if this is no TCP socket or one that listens. After an error, the
    socket is unchanged.
    """
    fields.check_intent(flow)
    put(sock, **flow)


def undeclare(sock: HasOptions) -> None:
    """Begin a new flow of which nothing is known, with the next byte. Raises NoAgent, OSError."""
    put(sock)


def put(sock: HasOptions, **flow: Unpack[FlowFields]) -> None:
    """Do `declare` with any allowed values, also none at all or a deadline that no link can meet."""
    value = fields.pack_flow(**flow)
    try:
        sock.setsockopt(SOL_SLUICE, SLUICE_FLOW, value)
    except OSError as error:
        raise _explained(error, flow.get("congestion_control")) from error


def declared(sock: HasOptions) -> DeclaredFlow:
    """Return the declaration of the socket's flow, with times as of now. Raises NoAgent, OSError."""
    return fields.unpack_flow(_get(sock, SLUICE_FLOW, fields.FLOW.size))


def state(sock: HasOptions) -> FlowState:
    """Return the state of the socket's flow. Raises NoAgent, OSError."""
    value = _get(sock, SLUICE_STATE, STATE.size)
    # Fractions are fixed-point numbers.
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


def _get(sock: HasOptions, option: int, size_bytes: int) -> bytes:
    try:
        return sock.getsockopt(SOL_SLUICE, option, size_bytes)
    except OSError as error:
        # On an IPv4 socket, the kernel answers EOPNOTSUPP if no hook is attached.
        if error.errno == errno.EOPNOTSUPP and _is_tcp(sock):
            raise _no_agent() from error
        raise _explained(error, None) from error


def _explained(error: OSError, congestion_control: str | None) -> Exception:
    """Return the error to raise for a refusal of the kernel."""
    if error.errno == errno.ENOPROTOOPT:
        return _no_agent()
    # pack_flow has checked every other field, so EINVAL can only mean the congestion control.
    if error.errno == errno.EINVAL and congestion_control is not None:
        return WrongField(
            "congestion_control",
            f"{congestion_control} is not registered on this machine: use one of those in "
            "/proc/sys/net/ipv4/tcp_available_congestion_control",
        )
    if error.errno == errno.EPERM and congestion_control is not None:
        return WrongField(
            "congestion_control",
            f"{congestion_control} is only for root here: use a control of Sluice, or the default in "
            "/proc/sys/net/ipv4/tcp_congestion_control",
        )
    if error.errno == errno.EOPNOTSUPP:
        return OSError(error.errno, "only a TCP socket that does not listen can carry a declared flow")
    return error


def _no_agent() -> NoAgent:
    return NoAgent(
        "no Sluice agent serves this network namespace, so the kernel takes no declarations: start an agent as root "
        "(sluice agent); `sluice doctor` reports what the machine may lack"
    )


def _is_tcp(sock: HasOptions) -> bool:
    """Whether it is a TCP socket that does not listen."""
    try:
        protocol = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL, 4)
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN, 4)
    except OSError:
        return False
    return struct.unpack("=i", protocol)[0] == socket.IPPROTO_TCP and not any(listens)
