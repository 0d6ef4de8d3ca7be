# SPDX-License-Identifier: Apache-2.0
"""The sending end: a connection carries one flow or, if persistent, one flow after the other.

On a connection for one flow, the FIN follows the last byte. Switches count that FIN, by its tag, as a
completed flow of that size, so each flow must have exactly one FIN. Therefore the receiver never sends
a FIN, and the sender closes with RST after it has read the receiver's notice.

The sender declares flows with a deadline, an importance or a known size to the kernel. If the kernel
may kill a flow, the sender polls for that every QUENCH_POLL_NS, and closes with RST after a kill.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sluice.hostagent import tcp
from sluice.hostagent.loop import READ, WRITE, Loop
from sluice.hostagent.records import QUENCHED, failed, finished, with_size
from sluice.hostagent.sockets import Phase
from sluice.hostagent.wire import HEADER_BYTES, NOTICE_BYTES, PORT, BadMessage, Header, Notice, PeerClocks
from sluice.policy.figures.validity import DELAYS, delay_class
from sluice.policy.units import NS_PER_MS, NS_PER_US
from sluice.policy.wire.agents import RunningFlow
from sluice.policy.wire.records import FlowRecord, ScheduledFlow

_PAYLOAD = memoryview(bytes(256 * 1024))
_SENDS_PER_WAKE = 4
QUENCH_POLL_NS = 20 * NS_PER_MS
ENDLESS_UNSENT_BYTES = 128 * 1024
"""At most this much of an endless flow waits unsent in the socket, so that the flow ends soon after its time."""

_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by the receiver",
    errno.EPIPE: "connection reset by the receiver",
    errno.ENOTCONN: "connection reset by the receiver",  # after the last write, before shutdown()
    errno.ETIMEDOUT: "connection timed out",
}


@dataclass(frozen=True)
class ActiveFlow:
    """A flow that has been started."""

    sequence: int
    flow: ScheduledFlow
    initial_record: FlowRecord
    """The record that is true if the flow makes no progress from here."""
    on_done: Callable[[ActiveFlow, FlowRecord, int], None]
    """Called once, with the flow, its record and its number of retransmission timeouts."""
    ends_ns: int | None = None
    """CLOCK_MONOTONIC at which an endless flow ends."""


class Sender:
    """Starts flows and owns the connections."""

    def __init__(self, loop: Loop, persistent: bool, port: int = PORT) -> None:
        self._loop = loop
        self._persistent = persistent
        self._port = port
        self.idle: dict[str, list[OutgoingConnection]] = defaultdict(list)
        """Connections without a flow, by their address."""
        self.clocks = PeerClocks()
        self.active: dict[int, OutgoingConnection] = {}
        """Connections that carry a flow, by the flow's sequence number."""
        self.refused_controls = 0
        """Connections that use the namespace's default, because their congestion control was not registered."""
        self.answer_delays = [0] * DELAYS
        """Flows by the time from the arrival of the last byte to the receiver's notice, in units of their ideal FCT."""
        self.undeclared = 0
        """Flows that needed a declaration, but no agent had the hook attached, or it did not reach the control."""

    def start(self, active: ActiveFlow, address: str, congestion_control: str | None) -> None:
        """Send the flow. `active.on_done` is called in any case, perhaps before this returns."""
        connection = self._free_connection(address, congestion_control)
        if connection is None:
            connection = OutgoingConnection(self, self._loop, address, self._port, congestion_control)
            self.refused_controls += connection.control_refused
        connection.begin(active, ends_with_fin=not self._persistent)

    def _free_connection(self, address: str, congestion_control: str | None) -> OutgoingConnection | None:
        idle = self.idle[address]
        while idle:
            connection = idle.pop()
            if connection.congestion_control == congestion_control:
                return connection
            connection.close()
        return None

    def running(self) -> tuple[RunningFlow, ...]:
        """Return the state of the first flows, in any thread. Flows that end meanwhile are left out."""
        flows: list[RunningFlow] = []
        for connection in list(self.active.values()):
            with suppress(OSError):
                flow = connection.progress()
                if flow is not None:
                    flows.append(flow)
            if len(flows) == tcp.MOST_SHOWN:
                break
        return tuple(flows)

    def abandon(self, reason: str) -> None:
        """End every active flow as unfinished and close all connections."""
        for connection in list(self.active.values()):
            connection.fail(reason)
        for idle in self.idle.values():
            while idle:
                idle.pop().close()


class OutgoingConnection:
    """One connection to a receiver."""

    def __init__(
        self, sender: Sender, loop: Loop, address: str, port: int, congestion_control: str | None
    ) -> None:
        self.address = address
        self.congestion_control = congestion_control
        self._sender = sender
        self._loop = loop
        self._port = port
        self._active: ActiveFlow | None = None
        self._info_before = tcp.TcpInfo(0, 0, 0)
        self._started_ns = 0
        self._connected = False
        self._declared = self._has_level = False
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tcp.reset_on_close(self._sock)
        self.control_refused = False
        """Whether the control is not registered."""
        try:
            if congestion_control:
                tcp.set_congestion_control(self._sock, congestion_control)
        except FileNotFoundError:
            # The process that registered it may have died a moment ago; another agent registers it again soon.
            self.control_refused = True

    def begin(self, active: ActiveFlow, ends_with_fin: bool) -> None:
        """Send a flow; connect first on a new connection."""
        self._started_ns = time.time_ns()  # before another thread can see the flow
        self._active = active
        self._sender.active[active.sequence] = self
        self._fin = ends_with_fin or active.flow.endless
        self._notice = bytearray()
        self._remaining = sys.maxsize if active.flow.endless else active.flow.bytes - HEADER_BYTES
        flow = active.flow
        self._head = Header(active.sequence, flow.bytes, self._started_ns, self._fin, flow.endless).pack()
        try:
            self._declare(active)
            if flow.level is not None or self._has_level:
                self._has_level = flow.level is not None
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, flow.level or 0)
            if active.ends_ns is not None:
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, ENDLESS_UNSENT_BYTES)
                self._loop.call_at(active.ends_ns, partial(self._end, active))
            if self._connected:
                self._send()
            else:
                result = self._sock.connect_ex((self.address, self._port))
                self._loop.add(self._sock.fileno(), WRITE, self._on_event)
                if result not in (0, errno.EINPROGRESS):
                    raise OSError(result, os.strerror(result))
        except OSError as error:
            self.fail(_reason(error))

    def _declare(self, active: ActiveFlow) -> None:
        flow = active.flow
        needed = flow.deadline_us is not None or flow.importance is not None or flow.size_known
        # After a declared flow, the next one on the connection needs an empty declaration to replace it.
        if not (needed or self._declared):
            return
        self._declared = tcp.declare(self._sock, flow)
        if needed and not self._declared:
            self._sender.undeclared += 1
        if self._declared and flow.quench == "kill":
            self._loop.call_at(time.monotonic_ns() + QUENCH_POLL_NS, partial(self._poll_quench, active))

    def _poll_quench(self, active: ActiveFlow) -> None:
        if self._active is not active:
            return
        state = tcp.flow_state(self._sock)
        if state is not None and state.phase is Phase.KILLED:
            self.fail(QUENCHED)
        else:
            self._loop.call_at(time.monotonic_ns() + QUENCH_POLL_NS, partial(self._poll_quench, active))

    def _end(self, active: ActiveFlow) -> None:
        """Write no more of an endless flow. TCP still sends what has been written."""
        if self._active is not active:
            return
        sent_bytes = HEADER_BYTES + sys.maxsize - self._remaining
        self._active = replace(active, initial_record=with_size(active.initial_record, sent_bytes))
        self._remaining = 0
        if self._connected and not self._head:
            self._all_sent()

    def sample(self) -> Mapping[str, Any] | None:
        """Return a sample of the flow's progress; None if the connection carries no flow."""
        active = self._active
        if active is None:
            return None
        info = tcp.tcp_info(self._sock)
        sample = {
            "flow": active.flow.id,
            "label": active.flow.label,
            "acked_bytes": info.acked_bytes - self._info_before.acked_bytes,
            "cwnd": info.cwnd,
            "srtt_us": info.srtt_us,
            "under_way": info.unacked_segments,
            "retransmissions": info.retransmissions - self._info_before.retransmissions,
        }
        state = tcp.flow_state(self._sock)
        return sample if state is None else sample | dict(tcp.state_sample(state))

    def progress(self) -> RunningFlow | None:
        """Return the flow's state, None without one, in any thread. Raises OSError if the socket is closed."""
        active, started_ns, before = self._active, self._started_ns, self._info_before
        if active is None:
            return None
        info, control = tcp.tcp_info(self._sock), tcp.congestion_control(self._sock)
        return tcp.running_flow(active.flow, started_ns, info, before, control)

    def _on_event(self, events: int) -> None:
        try:
            if self._active is None:
                self.close()  # an event on an idle connection means that the receiver has closed it
            elif events & WRITE and (self._head or self._remaining):
                self._connected = True
                self._send()
            else:
                self._receive(self._active)
        except BlockingIOError:
            return
        except BadMessage as error:
            self.fail(f"no notice: {error}")
        except OSError as error:
            self.fail(_reason(error))

    def _send(self) -> None:
        try:
            for _ in range(_SENDS_PER_WAKE):
                self._send_once()
                if not (self._head or self._remaining):
                    self._all_sent()
                    return
        except BlockingIOError:
            pass
        self._loop.change(self._sock.fileno(), WRITE)

    def _send_once(self) -> None:
        payload = _PAYLOAD[: self._remaining]
        if not self._head:
            self._remaining -= self._sock.send(payload)
            return
        count = self._sock.sendmsg([self._head, payload])
        self._remaining -= max(0, count - len(self._head))
        self._head = self._head[count:]

    def _all_sent(self) -> None:
        if self._fin:
            self._sock.shutdown(socket.SHUT_WR)
        self._loop.change(self._sock.fileno(), READ)

    def _receive(self, active: ActiveFlow) -> None:
        data = self._sock.recv(NOTICE_BYTES - len(self._notice))
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "end of file")
        self._notice += data
        if len(self._notice) == NOTICE_BYTES:
            notice = Notice.unpack(self._notice)
            if notice.sequence != active.sequence:
                raise BadMessage(f"the notice is for flow {notice.sequence}, not {active.sequence}")
            self._finish(active, notice)

    def _finish(self, active: ActiveFlow, notice: Notice) -> None:
        info = tcp.tcp_info(self._sock)
        if not active.flow.endless:
            answer_us = (notice.answered_ns - notice.arrived_ns) / NS_PER_US
            self._sender.answer_delays[delay_class(answer_us, active.flow.ideal_us)] += 1
        arrived_ns, clock_error_ns = self._sender.clocks.arrival(self.address, self._started_ns, notice)
        record = finished(
            active.initial_record,
            started_ns=self._started_ns,
            arrived_ns=arrived_ns,
            clock_error_ns=clock_error_ns,
            retransmissions=info.retransmissions - self._info_before.retransmissions,
            congestion_control=tcp.congestion_control(self._sock),
        )
        timeouts = (info.timeouts or 0) - (self._info_before.timeouts or 0)
        self._info_before = info
        if self._declared and not tcp.reached_control(self._sock, active.flow):
            self._sender.undeclared += 1
        self._release(active)
        if self._fin:
            self.close()
        else:
            self._sender.idle[self.address].append(self)
        active.on_done(active, record, timeouts)

    def fail(self, reason: str) -> None:
        """Record the connection's flow as unfinished, and close with RST."""
        active = self._active
        if active is None:
            return
        info = tcp.tcp_info(self._sock)
        initial = active.initial_record
        if active.flow.endless:
            initial = with_size(initial, max(initial.bytes, info.acked_bytes - self._info_before.acked_bytes))
        record = failed(initial, reason, info.retransmissions - self._info_before.retransmissions)
        self._release(active)
        self.close()
        active.on_done(active, record, (info.timeouts or 0) - (self._info_before.timeouts or 0))

    def _release(self, active: ActiveFlow) -> None:
        del self._sender.active[active.sequence]
        self._active = None

    def close(self) -> None:
        """Close with RST."""
        with suppress(ValueError):  # it was not idle
            self._sender.idle[self.address].remove(self)
        self._loop.remove(self._sock.fileno())
        self._sock.close()


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, os.strerror(error.errno).lower() if error.errno else str(error))
