# SPDX-License-Identifier: Apache-2.0
"""The receiving end: a listener, and one small state per connection: header, payload, (FIN), notice, header, …

The last byte's arrival is the kernel's time stamp of its packet, so that a busy machine's user space is not in the
flow completion time. recvmsg() tells the stamp of the last segment *in the stream*; when segments came out of order
that one may have arrived before a gap was filled, so then the time after the read counts instead.
"""

from __future__ import annotations

import logging
import mmap
import socket
import sys
import time
from dataclasses import dataclass

from hostagent import tcp
from hostagent.loop import READ, Loop
from hostagent.wire import HEADER_BYTES, PORT, BadMessage, Header, Notice
from policy.errors import EnvironmentLacking
from policy.framing import MSS_BYTES

log = logging.getLogger(__name__)

_BACKLOG = 1024
_KEEPALIVE_S = 30
_READ_BYTES = 1 << 20
_READS_PER_WAKE = 8


@dataclass
class ReceiverStatistics:
    """Since the agent's start."""

    flows: int = 0
    bytes: int = 0
    user_space_ns: int = 0
    """Sum over the kernel-stamped flows of the time from the arrival of the last byte to its read."""
    kernel_stamped: int = 0


class Receiver:
    """Listens on all addresses of this namespace, IPv4 and IPv6."""

    def __init__(
        self, loop: Loop, congestion_control: str | None, port: int = PORT, max_window: int | None = None
    ) -> None:
        """`max_window`: segments that a sender may have under way at most."""
        self._loop = loop
        self.window_bytes = None if max_window is None else max_window * MSS_BYTES
        self.statistics = ReceiverStatistics()
        # MSG_TRUNC makes TCP drop what is read instead of copying it: these pages are never touched.
        self.sink = memoryview(mmap.mmap(-1, _READ_BYTES))
        self._listener = _listen(port)
        if self.window_bytes is not None:
            tcp.clamp_window(self._listener, self.window_bytes)
        if congestion_control:
            tcp.set_congestion_control(self._listener, congestion_control)
        loop.add(self._listener.fileno(), READ, lambda _: self._accept())
        self._open: set[Incoming] = set()

    @property
    def port(self) -> int:
        """The TCP port; useful when 0 was asked for."""
        return int(self._listener.getsockname()[1])

    def use_congestion_control(self, name: str) -> None:
        """For the connections to come. Both ends need a control that wants ECN, or the handshake refuses it."""
        tcp.set_congestion_control(self._listener, name)

    def close(self) -> None:
        """Stop listening and reset what is open."""
        self._loop.remove(self._listener.fileno())
        self._listener.close()
        for connection in list(self._open):
            connection.drop()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # gone before we came
            connection = Incoming(self, self._loop, sock, peer[0])
            self._open.add(connection)
            connection.serve()  # the first bytes are usually here by now

    @property
    def connections(self) -> int:
        """Open now."""
        return len(self._open)

    def forget(self, connection: Incoming) -> None:
        self._open.discard(connection)


class Incoming:
    """One accepted connection."""

    def __init__(self, receiver: Receiver, loop: Loop, sock: socket.socket, peer: str) -> None:
        self._receiver = receiver
        self._loop = loop
        self._sock = sock
        self._peer = peer
        self._out_of_order = 0
        self._over = False
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

    def drop(self) -> None:
        self._loop.remove(self._sock.fileno())
        self._sock.close()
        self._receiver.forget(self)

    def serve(self) -> None:
        """Read what is there."""
        if self._over:
            self.drop()  # the sender's RST, which it sends once it has the notice
            return
        try:
            if self._receiver.window_bytes is not None:
                tcp.clamp_window(self._sock, self._receiver.window_bytes)
            for _ in range(_READS_PER_WAKE):
                if not self._read():
                    return
        except BlockingIOError:
            return
        except BadMessage as error:
            log.warning("%s: %s: connection dropped", self._peer, error)
            self.drop()
        except OSError:
            self.drop()  # the sender has died, or closes a connection of many flows

    def _read(self) -> bool:
        """Read once; False when there is no more to do on this connection now."""
        if self._header is None:
            return self._read_header()
        if self._remaining:
            return self._read_payload(self._header)
        return self._read_end(self._header)

    def _read_header(self) -> bool:
        data, ancillary, _, _ = self._sock.recvmsg(HEADER_BYTES - len(self._head), tcp.TIMESTAMP_SPACE)
        if not data:
            self.drop()
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
            self.drop()
            return False
        self._kernel_ns = tcp.arrival_ns(ancillary)
        self._remaining -= count
        self._received += count
        return True if self._remaining else self._arrived(header)

    def _arrived(self, header: Header) -> bool:
        read_ns = time.time_ns()
        out_of_order = tcp.tcp_info(self._sock).out_of_order
        stamp_ns = self._kernel_ns if out_of_order == self._out_of_order else None
        self._out_of_order = out_of_order
        arrived_ns = stamp_ns or read_ns
        self._notice = Notice(header.sequence, arrived_ns, read_ns, stamp_ns is not None)
        self._count(self._notice)
        if header.ends_with_fin:
            return True
        self._answer()
        self._expect_header()
        return False

    def _read_end(self, header: Header) -> bool:
        """Await the FIN, so that the switches have counted it before the sender resets the connection."""
        if self._sock.recv(1):
            raise BadMessage(f"flow {header.sequence} is longer than it said")
        self._answer()
        # End of file makes a socket readable for ever; the RST that comes next is reported unasked.
        self._loop.change(self._sock.fileno(), 0)
        self._over = True
        return False

    def _answer(self) -> None:
        self._sock.send(self._notice.pack())

    def _count(self, notice: Notice) -> None:
        statistics = self._receiver.statistics
        statistics.flows += 1
        statistics.bytes += self._received
        if notice.kernel_stamp:
            statistics.kernel_stamped += 1
            statistics.user_space_ns += notice.read_ns - notice.arrived_ns


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.setsockopt(socket.SOL_SOCKET, tcp.SO_TIMESTAMPNS, 1)  # accepted sockets inherit it
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # ends a connection whose RST was lost
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    try:
        listener.bind(("::", port))
    except OSError as error:
        listener.close()
        raise EnvironmentLacking(
            f"cannot listen on TCP port {port}: {error.strerror}; end what uses it"
        ) from None
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener
