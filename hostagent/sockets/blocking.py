# SPDX-License-Identifier: Apache-2.0
"""Sockets whose flows have deadlines."""

import errno
import select
import socket
import time
from collections.abc import Callable
from typing import Self, Unpack

from sluice.hostagent.sockets import options
from sluice.hostagent.sockets.flow import DeclaredFlow, FlowFields
from sluice.hostagent.sockets.flow_state import FlowState
from sluice.hostagent.sockets.monitor import POLL_INTERVAL_S, FlowMonitor

_CHUNK_BYTES = 1 << 20


class DeadlineSocket:
    """A connected TCP socket whose flows have deadlines. As a context manager, it closes the socket.

    One connection carries any number of flows, one after the other: call `declare` before each.
    The timeout of the socket (settimeout) bounds each call as a whole.
    """

    def __init__(self, sock: socket.socket, on_phase: Callable[[FlowState], None] | None = None) -> None:
        """`on_phase` is called when the kernel suspends, resumes or kills the flow.

        It runs in the thread that sends or waits.
        """
        self.sock = sock
        self._monitor = FlowMonitor(sock, on_phase)

    def declare(self, **flow: Unpack[FlowFields]) -> None:
        """Declare a new flow, which begins with the next byte. See `options.declare` for the errors."""
        options.declare(self.sock, **flow)
        self._monitor.begin()

    def undeclare(self) -> None:
        """Begin a new flow of which nothing is known, with the next byte. Raises NoAgent, OSError."""
        options.undeclare(self.sock)
        self._monitor.begin()

    def declared(self) -> DeclaredFlow:
        """Return the declaration of the current flow. Raises NoAgent, OSError."""
        return options.declared(self.sock)

    def state(self) -> FlowState:
        """Return the state of the current flow. Raises NoAgent, OSError."""
        return options.state(self.sock)

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Hand all data to the kernel.

        Raises:
        - FlowQuenched at most about 20 ms after the kernel killed the flow, even while the call blocks;
        - TimeoutError after the socket's timeout;
        - BlockingIOError if a non-blocking socket has no room for the rest;
        - OSError if the connection breaks.
        """
        remaining, timeout = memoryview(data).cast("B"), _Timeout(self.sock.gettimeout())
        writable = select.poll()
        writable.register(self.sock, select.POLLOUT)
        while remaining:
            self._monitor.check()
            if writable.poll(timeout.wait_ms()):
                # MSG_DONTWAIT, because Python's send() waits on a socket with a timeout.
                sent = self.sock.send(remaining[:_CHUNK_BYTES], socket.MSG_DONTWAIT)
                remaining = remaining[sent:]
                self._monitor.add_written(sent)
            else:
                timeout.check()

    def wait_acknowledged(self) -> None:
        """Return when the receiver's kernel has all data of this flow.

        Raises:
        - FlowQuenched if the kernel killed the flow;
        - TimeoutError after the socket's timeout;
        - BlockingIOError if a non-blocking socket would block;
        - ConnectionError or another OSError if the connection breaks;
        - SluiceError if no flow is declared.
        """
        timeout, broken = _Timeout(self.sock.gettimeout()), select.poll()
        broken.register(self.sock, 0)
        while not self._monitor.is_acknowledged():
            if broken.poll(timeout.wait_ms()):
                number = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                problem = "the connection broke before the receiver had acknowledged all data"
                raise OSError(number or errno.ECONNRESET, problem)
            timeout.check()

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Timeout:
    """The timeout of one call, which waits in steps of POLL_INTERVAL_S."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def wait_ms(self) -> float:
        """Return how long the next step may wait."""
        left_s = POLL_INTERVAL_S if self._end is None else self._end - time.monotonic()
        return 1000 * min(POLL_INTERVAL_S, max(0.0, left_s))

    def check(self) -> None:
        """Raise TimeoutError if the time is over, BlockingIOError on a non-blocking socket."""
        if self._timeout_s == 0:
            raise BlockingIOError(errno.EAGAIN, "the socket is non-blocking and the call would block")
        if self._end is not None and time.monotonic() >= self._end:
            raise TimeoutError("timed out")
