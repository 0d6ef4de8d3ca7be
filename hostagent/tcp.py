# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells about a TCP connection: TCP_INFO, the congestion control, the arrival time of what was read."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; Python's socket module lacks it. Answers as a control message of the same number."""
_TIMESPEC = struct.Struct("@ll")
TIMESTAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)

_INFO_BYTES = 248
# Offsets in struct tcp_info (linux/tcp.h); the kernel only ever appends to it.
_U64 = struct.Struct("@Q")
_U32 = struct.Struct("@I")
_U16 = struct.Struct("@H")
_UNACKED, _RTT, _SND_CWND, _TOTAL_RETRANS, _BYTES_ACKED, _OUT_OF_ORDER, _TOTAL_RTO = (
    24,
    68,
    80,
    100,
    120,
    224,
    240,
)

_RESET_ON_CLOSE = struct.pack("@ii", 1, 0)
_NAME_BYTES = 16


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """Counters since the connection was opened."""

    retransmissions: int
    """Segments sent again."""
    out_of_order: int
    """Segments received out of order."""
    timeouts: int | None
    """Retransmission timeouts; None before Linux 6.7."""
    acked_bytes: int = 0
    """Of what was sent on this connection; its SYN counts as one."""
    cwnd: int = 0
    """Congestion window now, in packets."""
    srtt_us: int = 0
    """Smoothed round-trip time now."""
    under_way: int = 0
    """Segments sent and not yet acknowledged."""


def tcp_info(sock: socket.socket) -> TcpInfo:
    data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    timeouts = _U16.unpack_from(data, _TOTAL_RTO)[0] if len(data) >= _TOTAL_RTO + 2 else None
    return TcpInfo(
        retransmissions=_U32.unpack_from(data, _TOTAL_RETRANS)[0],
        out_of_order=_U32.unpack_from(data, _OUT_OF_ORDER)[0],
        timeouts=timeouts,
        acked_bytes=_U64.unpack_from(data, _BYTES_ACKED)[0],
        cwnd=_U32.unpack_from(data, _SND_CWND)[0],
        srtt_us=_U32.unpack_from(data, _RTT)[0],
        under_way=_U32.unpack_from(data, _UNACKED)[0],
    )


def clamp_window(sock: socket.socket, limit_bytes: int) -> None:
    """Advertise no larger receive window. On a listener: in the connections to come, too.

    The kernel forgets it when it adapts its buffer (locked here) or first sees how much memory a packet takes.
    """
    option = (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)
    if sock.getsockopt(*option) != limit_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * limit_bytes)
        sock.setsockopt(*option, limit_bytes)


def bound_unsent(sock: socket.socket, limit_bytes: int) -> None:
    """Take no more from the program while this much waits to be sent: what it stops writing ends soon."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, limit_bytes)


def congestion_control(sock: socket.socket) -> str:
    """Name of the control that governs this socket."""
    name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES)
    return name.split(b"\0")[0].decode()


def set_congestion_control(sock: socket.socket, name: str) -> None:
    """OSError ENOENT when no such control is registered. On a listener: that of the connections to come."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


def reset_on_close(sock: socket.socket) -> None:
    """Closing sends RST, never FIN: nothing lingers, not in TIME_WAIT and not after a killed process."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def arrival_ns(ancillary: Iterable[tuple[int, int, bytes]]) -> int | None:
    """CLOCK_REALTIME at which the kernel received the last segment that a recvmsg() returned."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds * 10**9 + nanoseconds)
    return None
