# SPDX-License-Identifier: Apache-2.0
"""The kernel's options of a TCP socket: TCP_INFO, congestion control, arrival time of the data read."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

SO_TIMESTAMPNS = 35
"""From asm-generic/socket.h, because Python's socket module lacks it. Its control message has the same number."""
_TIMESPEC = struct.Struct("@ll")
TIMESTAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)

_INFO_BYTES = 248
# Offsets in struct tcp_info (linux/tcp.h). They are stable, because the kernel only appends to it.
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
    """Counters since the connection was opened, and its present state."""

    retransmissions: int
    """Segments retransmitted."""
    out_of_order: int
    """Segments received out of order."""
    timeouts: int | None
    """Retransmission timeouts; None before Linux 6.7."""
    acked_bytes: int = 0
    """Bytes that the receiver has acknowledged; the SYN counts as one."""
    cwnd: int = 0
    """Present congestion window, in packets."""
    srtt_us: int = 0
    """Present smoothed round-trip time."""
    unacked_segments: int = 0
    """Segments sent and not yet acknowledged."""


def tcp_info(sock: socket.socket) -> TcpInfo:
    """Return the connection's counters."""
    data = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    timeouts = _U16.unpack_from(data, _TOTAL_RTO)[0] if len(data) >= _TOTAL_RTO + 2 else None
    return TcpInfo(
        retransmissions=_U32.unpack_from(data, _TOTAL_RETRANS)[0],
        out_of_order=_U32.unpack_from(data, _OUT_OF_ORDER)[0],
        timeouts=timeouts,
        acked_bytes=_U64.unpack_from(data, _BYTES_ACKED)[0],
        cwnd=_U32.unpack_from(data, _SND_CWND)[0],
        srtt_us=_U32.unpack_from(data, _RTT)[0],
        unacked_segments=_U32.unpack_from(data, _UNACKED)[0],
    )


def clamp_window(sock: socket.socket, limit_bytes: int) -> None:
    """Limit the receive window that the socket advertises. On a listener, later connections inherit it.

    The kernel forgets the limit when it adapts the receive buffer, so this locks the buffer's size. The
    kernel also forgets it when it first learns how much memory a packet takes, so call this again then.
    """
    option = (socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)
    if sock.getsockopt(*option) != limit_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * limit_bytes)
        sock.setsockopt(*option, limit_bytes)


def limit_unsent(sock: socket.socket, limit_bytes: int) -> None:
    """Let the socket take no more data while this much waits unsent. So sending ends soon after writing."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, limit_bytes)


def congestion_control(sock: socket.socket) -> str:
    """Return the name of the socket's congestion control."""
    name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES)
    return name.split(b"\0")[0].decode()


def set_congestion_control(sock: socket.socket, name: str) -> None:
    """Select the congestion control of a socket, or of a listener's later connections.

    Raises FileNotFoundError if no such control is registered.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


def reset_on_close(sock: socket.socket) -> None:
    """Make close() send RST instead of FIN, so that no connection stays in TIME_WAIT or after a killed process."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def arrival_ns(ancillary: Iterable[tuple[int, int, bytes]]) -> int | None:
    """Return when (CLOCK_REALTIME) the kernel received the last segment of a recvmsg(); None if it did not say."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds * 10**9 + nanoseconds)
    return None
