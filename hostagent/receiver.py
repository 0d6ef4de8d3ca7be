# SPDX-License-Identifier: Apache-2.0
"""The receiving end: a listener, and a small state for each connection: header, payload, (FIN), notice, header, …

The arrival of the last byte is the kernel's time stamp of its packet. So the flow completion time does
not contain the delay of user space on a busy machine. recvmsg() returns the time stamp of the segment
that is last in the stream. After reordering, that segment may have arrived before a gap was filled;
then the receiver takes the time after the read.
"""

from __future__ import annotations

import logging
import mmap
import socket
import sys
import time
from dataclasses import dataclass

from sluice.hostagent import tcp
from sluice.hostagent.loop import READ, Loop
from sluice.hostagent.wire import HEADER_BYTES, PORT, BadMessage, Header, Notice, machine_number
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.units import MSS_BYTES
from sluice.runtime.identity import boot

log = logging.getLogger(__name__)

_BACKLOG = 1024
_KEEPALIVE_S = 30
_READ_BYTES = 1 << 20
_READS_PER_WAKE = 8
_WAKE_BYTES = 8 * MSS_BYTES
"""So many bytes of a flow wake the agent, or what is missing. For each packet, it took three times the CPU time."""


@dataclass
class ReceiverStatistics:
    """Counters since the agent's start."""

    flows: int = 0
    bytes: int = 0
    user_space_ns: int = 0
    """Time from the arrival of the last byte to its read, summed over the kernel-stamped flows."""
    kernel_stamped: int = 0
    """Flows whose arrival is a time stamp of the kernel."""


class Receiver:
    """Accepts flows on all addresses of this namespace, IPv4 and IPv6."""

    def __init__(self, loop: Loop, port: int = PORT, max_window: int | None = None) -> None:
        """`max_window`: the most segments that a sender may have in flight. Raises EnvironmentLacking."""
        self._loop = loop
        self.window_bytes = None if max_window is None else max_window * MSS_BYTES
        self.statistics = ReceiverStatistics()
        self.machine = machine_number(boot())
        # With MSG_TRUNC, TCP drops the data instead of copying it, so these pages are never touched.
        self.sink = memoryview(mmap.mmap(-1, _READ_BYTES))
        self._listener = _listen(port)
        if self.window_bytes is not None:
            tcp.clamp_window(self._listener, self.window_bytes)
        loop.add(self._listener.fileno(), READ, lambda _: self._accept())
        self.open: set[IncomingConnection] = set()

    @property
    def port(self) -> int:
        """The TCP port, also if the constructor's port was 0."""
        return int(self._listener.getsockname()[1])

    def use_congestion_control(self, name: str) -> None:
        """Set the control of later connections.

        Both ends need a control that uses ECN, because the handshake refuses ECN otherwise.
        """
        tcp.set_congestion_control(self._listener, name)

    def close(self) -> None:
        """Stop listening and reset the open connections."""
        self._loop.remove(self._listener.fileno())
        self._listener.close()
        for connection in list(self.open):
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # the sender has closed it already
            connection = IncomingConnection(self, self._loop, sock, peer[0])
            self.open.add(connection)
            connection.serve()  # the first bytes have usually arrived by now


class IncomingConnection:
    """One accepted connection."""

    def __init__(self, receiver: Receiver, loop: Loop, sock: socket.socket, peer: str) -> None:
        self._receiver = receiver
        self._loop = loop
        self._sock = sock
        self._peer = peer
        self._out_of_order = 0
        self._answered = False
        self._wakes_at = 1
        window_bytes = receiver.window_bytes or sys.maxsize
        self._wake_bytes = min(_WAKE_BYTES, window_bytes // 2)  # a full window must not wait for more
        sock.setblocking(False)
        tcp.reset_on_close(sock)
        self._expect_header()
        loop.add(sock.fileno(), READ, lambda _: self.serve())

    def _expect_header(self) -> None:
        self._head = bytearray()
        self._header: Header | None = None
        self._remaining = 0
        self._received = 0
        self._kernel_ns: int | None = None

    def _wake_at(self, missing_bytes: int) -> None:
        """Wait for the missing bytes, but for `_wake_bytes` at most. A FIN wakes the agent, too."""
        count = min(missing_bytes, self._wake_bytes)
        if count != self._wakes_at:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._wakes_at = count

    def close(self) -> None:
        """Close with RST."""
        self._loop.remove(self._sock.fileno())
        self._sock.close()
        self._receiver.open.discard(self)

    def serve(self) -> None:
        """Read the bytes that have arrived."""
        if self._answered:
            self.close()  # the sender resets the connection after it has read the notice
            return
        try:
            if self._receiver.window_bytes is not None:
                tcp.clamp_window(self._sock, self._receiver.window_bytes)
            for _ in range(_READS_PER_WAKE):
                if self._header is None:
                    reads_on = self._read_header()
                elif self._remaining:
                    reads_on = self._read_payload(self._header)
                else:
                    reads_on = self._read_end(self._header)
                if not reads_on:
                    return
        except BlockingIOError:
            return
        except BadMessage as error:
            log.warning("connection from %s closed: %s", self._peer, error)
            self.close()
        except OSError:
            self.close()  # the sender has died, or closes a persistent connection

    def _read_header(self) -> bool:
        """Read once, as _read_payload and _read_end do. Returns False if this connection needs no further read now."""
        data, ancillary, _, _ = self._sock.recvmsg(HEADER_BYTES - len(self._head), tcp.TIMESTAMP_SPACE)
        if not data:
            self.close()
            return False
        self._kernel_ns = tcp.arrival_ns(ancillary)
        self._head += data
        if len(self._head) == HEADER_BYTES:
            self._header = Header.unpack(self._head)
            self._received = HEADER_BYTES
            endless = self._header.endless
            self._remaining = sys.maxsize if endless else self._header.size_bytes - HEADER_BYTES
            if not self._remaining:
                return self._arrived(self._header)
        return True

    def _read_payload(self, header: Header) -> bool:
        window = self._receiver.sink[: self._remaining]
        count, ancillary, _, _ = self._sock.recvmsg_into([window], tcp.TIMESTAMP_SPACE, socket.MSG_TRUNC)
        if not count and header.endless:
            self._remaining = 0
            return self._arrived(header)
        if not count:
            self.close()
            return False
        self._kernel_ns = tcp.arrival_ns(ancillary)
        self._remaining -= count
        self._received += count
        if not self._remaining:
            return self._arrived(header)
        self._wake_at(self._remaining)
        return count == len(window)  # otherwise that was all

    def _arrived(self, header: Header) -> bool:
        read_ns = time.time_ns()
        self._wake_at(1)
        out_of_order = tcp.tcp_info(self._sock).out_of_order
        stamp_ns = self._kernel_ns if out_of_order == self._out_of_order else None
        self._out_of_order = out_of_order
        self._arrived_ns = stamp_ns or read_ns
        statistics = self._receiver.statistics
        statistics.flows += 1
        statistics.bytes += self._received
        if stamp_ns is not None:
            statistics.kernel_stamped += 1
            statistics.user_space_ns += read_ns - stamp_ns
        if header.ends_with_fin:
            return True
        self._answer(header)
        self._expect_header()
        return False

    def _read_end(self, header: Header) -> bool:
        """Wait for the FIN: the switches must count it before the sender resets the connection."""
        if self._sock.recv(1):
            raise BadMessage(
                f"flow {header.sequence} is longer than the {header.size_bytes} bytes of its header"
            )
        self._answer(header)
        # After the FIN, the socket stays readable for ever. epoll reports the RST without any event.
        self._loop.change(self._sock.fileno(), 0)
        self._answered = True
        return False

    def _answer(self, header: Header) -> None:
        notice = Notice(header.sequence, self._arrived_ns, time.time_ns(), self._receiver.machine)
        self._sock.send(notice.pack())


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.setsockopt(socket.SOL_SOCKET, tcp.SO_TIMESTAMPNS, 1)  # accepted sockets inherit it
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # closes a connection whose RST was lost
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    try:
        listener.bind(("::", port))
    except OSError as error:
        listener.close()
        raise EnvironmentLacking(
            f"cannot listen on TCP port {port}: {error.strerror}; "
            f"find the program that uses it with ss -ltnp 'sport = {port}' and end it"
        ) from None
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener
