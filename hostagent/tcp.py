# SPDX-License-Identifier: Apache-2.0
"""TCP sockets of the agent's own flows: the kernel's options, declarations, and what a heartbeat says of the flows.

The options are TCP_INFO, the congestion control and the arrival time of the data read. A declaration tells the kernel a
flow's size, deadline or importance; then its state shows how it progresses.
"""

import math
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.hostagent.sockets import FlowFields, FlowState, NoAgent, options
from sluice.policy.controls import PREFIX
from sluice.policy.units import NS_PER_S, US_PER_S
from sluice.policy.wire.agents import RunningFlow
from sluice.policy.wire.records import ScheduledFlow

SO_TIMESTAMPNS = 35
"""From asm-generic/socket.h, because Python's socket module lacks it. Its control message has the same number."""
_TIMESPEC = struct.Struct("@ll")
TIMESTAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)

_INFO_BYTES = 248
# Offsets in struct tcp_info (linux/tcp.h). They are stable, because the kernel only appends to it.
_U64 = struct.Struct("@Q")
_U32 = struct.Struct("@I")
_U16 = struct.Struct("@H")
_UNACKED, _RTT, _SND_CWND, _TOTAL_RETRANS = 24, 68, 80, 100
_BYTES_ACKED, _OUT_OF_ORDER, _TOTAL_RTO = 120, 224, 240

LONG_FLOW_BYTES = 1_000_000
"""A flow of this size has several windows of data on any link."""
MOST_SHOWN = 20
"""A heartbeat holds at most this many flows, those that began first."""
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


def declare(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Declare the flow that is written next. Returns False if no agent on this machine has the hook attached."""
    fields = FlowFields()
    if flow.deadline_us is not None:
        fields["deadline_s"] = flow.deadline_us / US_PER_S
        if flow.elapsed_us is not None:
            fields["elapsed_s"] = flow.elapsed_us / US_PER_S
        if not flow.endless:
            fields["size_bytes"], fields["quench"] = flow.bytes, flow.quench
    elif flow.size_known:
        fields["size_bytes"] = flow.bytes
    if flow.importance is not None:
        fields["importance"] = flow.importance
        fields["importance_share"] = flow.importance_share or 0.0
    try:
        options.put(sock, **fields)  # a scenario may have hopeless deadlines
    except NoAgent:
        return False
    return True


def flow_state(sock: socket.socket) -> FlowState | None:
    """Return the state of the socket's flow; None if no agent on this machine has the hook attached."""
    try:
        return options.state(sock)
    except NoAgent:
        return None


def reached_control(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Whether the congestion control has seen the declaration of a flow that is now complete.

    It has not if it counted no window of a long flow. The reason is that hook and control come from
    builds that do not share their memory. For a short flow or a control of the kernel: True.
    """
    if flow.bytes < LONG_FLOW_BYTES or not congestion_control(sock).startswith(PREFIX):
        return True
    now = flow_state(sock)
    return now is None or now.windows > 0


def state_sample(state: FlowState) -> Mapping[str, Any]:
    """Return the part of a flow's sample that comes from its state."""
    return {
        "phase": str(state.phase),
        "windows": state.windows,
        "rate_bytes_per_s": state.rate_bytes_per_s,
        "wanted_bytes_per_s": None if math.isinf(state.wanted_bytes_per_s) else state.wanted_bytes_per_s,
        "alpha": state.alpha,
        "urgency": state.urgency,
        "precedence": state.precedence,
        "decrease": state.decrease,
        "cuts": state.cuts,
        "quenches": state.quenches,
        "resumes": state.resumes,
    }


def running_flow(
    flow: ScheduledFlow, started_ns: int, info: TcpInfo, before: TcpInfo, congestion_control: str
) -> RunningFlow:
    """Return the heartbeat's entry of a flow, an endless one without a deadline.

    `started_ns` is CLOCK_REALTIME, and `before` the state of its connection when the flow began.
    """
    started_at = started_ns / NS_PER_S
    timed = flow.deadline_us is not None and not flow.endless
    return RunningFlow(
        id=flow.id,
        dst=flow.dst,
        label=flow.label,
        bytes=None if flow.endless else flow.bytes,
        acked_bytes=max(0, info.acked_bytes - before.acked_bytes),
        started_at=started_at,
        deadline_at=started_at + (flow.deadline_us or 0) / US_PER_S if timed else None,
        retransmissions=max(0, info.retransmissions - before.retransmissions),
        congestion_control=congestion_control,
        srtt_us=float(info.srtt_us) if info.srtt_us else None,
    )
