# SPDX-License-Identifier: Apache-2.0
"""The socket options of declared flows: one call each to declare, to read back, and to read the state.

They work on any TCP socket that does not listen, IPv4 or IPv6, of any user.
"""

import errno
import socket
import struct
from typing import Protocol, Unpack

from sluice.hostagent.sockets.errors import NoAgent, WrongField
from sluice.hostagent.sockets.flow import FLOW, DeclaredFlow, FlowFields, check_intent, pack_flow, unpack_flow
from sluice.hostagent.sockets.flow_state import STATE, FlowState, unpack_state

SOL_SLUICE = 0x5C1C
SLUICE_FLOW, SLUICE_STATE = 1, 2


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
    check_intent(flow)
    put(sock, **flow)


def undeclare(sock: HasOptions) -> None:
    """Begin a new flow of which nothing is known, with the next byte. Raises NoAgent, OSError."""
    put(sock)


def put(sock: HasOptions, **flow: Unpack[FlowFields]) -> None:
    """Do `declare` with any allowed values, also none at all or a deadline that no link can meet."""
    value = pack_flow(**flow)
    try:
        sock.setsockopt(SOL_SLUICE, SLUICE_FLOW, value)
    except OSError as error:
        raise _explained(error, flow.get("congestion_control")) from error


def declared(sock: HasOptions) -> DeclaredFlow:
    """Return the declaration of the socket's flow, with times as of now. Raises NoAgent, OSError."""
    return unpack_flow(_get(sock, SLUICE_FLOW, FLOW.size))


def state(sock: HasOptions) -> FlowState:
    """Return the state of the socket's flow. Raises NoAgent, OSError."""
    return unpack_state(_get(sock, SLUICE_STATE, STATE.size))


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
