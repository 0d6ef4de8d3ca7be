# SPDX-License-Identifier: Apache-2.0
"""The sending end: one connection carries one flow, or (persistent) one flow after the other.

A flow on a connection of its own ends with the FIN right behind its last byte: that FIN, by its tag, is what switches
count as a completed flow of that size. There must be one per flow, so the receiver never sends a FIN of its own and
this end closes with RST once it has read the receiver's notice.

The kernel is told of flows with a deadline or an importance. Where that means that it may kill one, this end looks
every QUENCH_LOOK_NS whether it has, and then closes with RST.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hostagent import declarations as telling
from hostagent import tcp
from hostagent.loop import READ, WRITE, Loop
from hostagent.records import QUENCHED, failed, finished, grown
from hostagent.sockets.flow import Phase
from hostagent.wire import HEADER_BYTES, NOTICE_BYTES, PORT, BadMessage, Header, Notice
from policy.records import FlowRecord
from policy.schedule import ScheduledFlow
from policy.units import NS_PER_MS

_PAYLOAD = memoryview(bytes(256 * 1024))
_SENDS_PER_WAKE = 4
QUENCH_LOOK_NS = 20 * NS_PER_MS
ENDLESS_UNSENT_BYTES = 128 * 1024
"""An endless flow ends when this much, at most, has followed what its program wrote last."""

_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by the receiver",
    errno.EPIPE: "connection reset by the receiver",
    errno.ETIMEDOUT: "connection timed out",
}


@dataclass(frozen=True)
class ActiveFlow:
    """A flow that has been started."""

    sequence: int
    flow: ScheduledFlow
    begun: FlowRecord
    """Its record if it went no further."""
    done: Callable[[ActiveFlow, FlowRecord, int], None]
    """Called once with the flow, its record and its retransmission timeouts."""
    ends_ns: int | None = None
    """CLOCK_MONOTONIC at which an endless flow ends."""


class Sender:
    """Starts flows and keeps the connections."""

    def __init__(self, loop: Loop, persistent: bool, port: int = PORT) -> None:
        self._loop = loop
        self._persistent = persistent
        self._port = port
        self._idle: dict[str, list[Outgoing]] = defaultdict(list)
        self.active: dict[int, Outgoing] = {}
        """By sequence number."""
        self.refused_controls = 0
        """Connections that took the namespace's default because their congestion control was not registered."""
        self.undeclared = 0
        """Flows that the kernel was to be told of, but nobody on this machine listened, or the control did not hear."""

    def start(self, active: ActiveFlow, address: str, congestion_control: str | None) -> None:
        """Send the flow; its `done` is called in any case, perhaps before this returns."""
        connection = self._free_connection(address, congestion_control)
        if connection is None:
            connection = Outgoing(self, self._loop, address, self._port, congestion_control)
            self.refused_controls += connection.control_refused
        connection.begin(active, ends_with_fin=not self._persistent)

    def _free_connection(self, address: str, congestion_control: str | None) -> Outgoing | None:
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            if connection.congestion_control == congestion_control:
                return connection
            connection.drop()
        return None

    def rest(self, connection: Outgoing) -> None:
        """A connection is free for the next flow."""
        self._idle[connection.address].append(connection)

    def forget(self, connection: Outgoing) -> None:
        if connection in self._idle[connection.address]:
            self._idle[connection.address].remove(connection)

    def abandon(self, reason: str) -> None:
        """End every active flow as unfinished and close all connections."""
        for connection in list(self.active.values()):
            connection.fail(reason)
        for idle in self._idle.values():
            while idle:
                idle.pop().drop()


class Outgoing:
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
        self._before = tcp.TcpInfo(0, 0, 0)
        self._connected = False
        self._told = False
        self._sock = _open(address)
        self.control_refused = not _select(self._sock, congestion_control)

    def begin(self, active: ActiveFlow, ends_with_fin: bool) -> None:
        self._active = active
        self._sender.active[active.sequence] = self
        self._fin = ends_with_fin or active.flow.endless
        self._notice = bytearray()
        self._remaining = sys.maxsize if active.flow.endless else active.flow.bytes - HEADER_BYTES
        self._started_ns = time.time_ns()
        self._head = self._header(active).pack()
        try:
            self._tell(active)
            self._plan_end(active)
            if self._connected:
                self._send()
            else:
                self._connect()
        except OSError as error:
            self.fail(_reason(error))

    def _header(self, active: ActiveFlow) -> Header:
        flow = active.flow
        deadline_us = round(flow.deadline_us or 0)
        return Header(active.sequence, flow.bytes, self._started_ns, deadline_us, self._fin, flow.endless)

    def _tell(self, active: ActiveFlow) -> None:
        """Also of a flow of which there is nothing to tell, when another one went before it on this connection."""
        wishes = telling.wishes(active.flow)
        if not (wishes or self._told):
            return
        self._told = telling.tell(self._sock, active.flow)
        if wishes and not self._told:
            self._sender.undeclared += 1
        if self._told and active.flow.quench == "kill":
            self._loop.call_at(time.monotonic_ns() + QUENCH_LOOK_NS, partial(self._look, active))

    def _look(self, active: ActiveFlow) -> None:
        """Has the kernel killed the flow?"""
        if self._active is not active:
            return
        state = telling.state(self._sock)
        if state is not None and state.phase is Phase.KILLED:
            self.fail(QUENCHED)
        else:
            self._loop.call_at(time.monotonic_ns() + QUENCH_LOOK_NS, partial(self._look, active))

    def _plan_end(self, active: ActiveFlow) -> None:
        if active.ends_ns is not None:
            tcp.bound_unsent(self._sock, ENDLESS_UNSENT_BYTES)
            self._loop.call_at(active.ends_ns, partial(self._end, active))

    def _end(self, active: ActiveFlow) -> None:
        """The time of an endless flow is over; what it has written still goes out."""
        if self._active is not active:
            return
        sent_bytes = HEADER_BYTES + sys.maxsize - self._remaining
        self._active = replace(active, begun=grown(active.begun, sent_bytes))
        self._remaining = 0
        if self._connected and not self._head:
            self._all_sent()

    def sample(self) -> Mapping[str, Any] | None:
        """How the flow fares now; None when there is none."""
        active = self._active
        if active is None:
            return None
        info = tcp.tcp_info(self._sock)
        sample = {
            "flow": active.flow.id,
            "label": active.flow.label,
            "acked_bytes": info.acked_bytes - self._before.acked_bytes,
            "cwnd": info.cwnd,
            "srtt_us": info.srtt_us,
            "under_way": info.under_way,
            "retransmissions": info.retransmissions - self._before.retransmissions,
        }
        state = telling.state(self._sock)
        return sample if state is None else sample | dict(telling.sample(state))

    def _connect(self) -> None:
        result = self._sock.connect_ex((self.address, self._port))
        self._loop.add(self._sock.fileno(), WRITE, self._on_event)
        if result not in (0, errno.EINPROGRESS):
            raise OSError(result, os.strerror(result))

    def _on_event(self, events: int) -> None:
        try:
            if self._active is None:
                self.drop()  # an idle connection has nothing to say: the receiver has gone
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
                raise BadMessage(f"it is about flow {notice.sequence}, not {active.sequence}")
            self._finish(active, notice)

    def _finish(self, active: ActiveFlow, notice: Notice) -> None:
        info = tcp.tcp_info(self._sock)
        record = finished(
            active.begun,
            started_ns=self._started_ns,
            arrived_ns=notice.arrived_ns,
            retransmissions=info.retransmissions - self._before.retransmissions,
            congestion_control=tcp.congestion_control(self._sock),
        )
        timeouts = (info.timeouts or 0) - (self._before.timeouts or 0)
        self._before = info
        if self._told and not telling.is_heard(self._sock, active.flow):
            self._sender.undeclared += 1
        self._release(active)
        if self._fin:
            self.drop()
        else:
            self._sender.rest(self)
        active.done(active, record, timeouts)

    def fail(self, reason: str) -> None:
        """The flow on this connection is over without having finished."""
        active = self._active
        if active is None:
            return
        info = tcp.tcp_info(self._sock)
        begun = active.begun
        if active.flow.endless:
            begun = grown(begun, max(begun.bytes, info.acked_bytes - self._before.acked_bytes))
        record = failed(begun, reason, info.retransmissions - self._before.retransmissions)
        self._release(active)
        self.drop()
        active.done(active, record, (info.timeouts or 0) - (self._before.timeouts or 0))

    def _release(self, active: ActiveFlow) -> None:
        del self._sender.active[active.sequence]
        self._active = None

    def drop(self) -> None:
        """Close with RST."""
        self._sender.forget(self)
        self._loop.remove(self._sock.fileno())
        self._sock.close()


def _open(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    tcp.reset_on_close(sock)
    return sock


def _select(sock: socket.socket, congestion_control: str | None) -> bool:
    """False when no such control is registered: its process may just have died; another one registers it soon."""
    try:
        if congestion_control:
            tcp.set_congestion_control(sock, congestion_control)
    except FileNotFoundError:
        return False
    return True


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, os.strerror(error.errno).lower() if error.errno else str(error))
