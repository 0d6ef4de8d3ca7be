# SPDX-License-Identifier: Apache-2.0
"""Sockets and asyncio streams whose flows have deadlines.

One connection carries any number of flows, one after the other: call `declare` before each.
"""

import asyncio
import errno
import select
import socket
import time
from collections.abc import Callable
from typing import Self, Unpack

from sluice.hostagent.sockets import options
from sluice.hostagent.sockets.flow import DeclaredFlow, FlowFields
from sluice.hostagent.sockets.options import FlowState, HasOptions, Phase
from sluice.policy.errors import SluiceError

POLL_INTERVAL_S = 0.02
"""A call that waits checks the flow's phase this often."""
_CHUNK_BYTES = 1 << 20


class FlowQuenched(SluiceError):
    """The kernel has killed the flow because it cannot meet its deadline: close the connection."""

    def __init__(self, state: FlowState) -> None:
        super().__init__(
            f"the kernel killed the flow after {state.acked_bytes} bytes because it cannot meet its deadline: "
            "close the connection, or declare another flow on it"
        )
        self.state = state
        """The flow's state when the kill was noticed."""


class _Flows:
    """The flows of one socket: the phase of the current one, and how much of it is acknowledged."""

    def __init__(self, sock: HasOptions, on_phase: Callable[[FlowState], None] | None) -> None:
        self._sock = sock
        self._on_phase = on_phase
        self._phase = Phase.SENDING
        self._written_bytes: int | None = None
        """Bytes of the declared flow that the program has written; None before the first declaration."""

    def declare(self, **flow: Unpack[FlowFields]) -> None:
        """Declare a new flow, which begins with the next byte. See `options.declare` for the errors."""
        options.declare(self._sock, **flow)
        self._begin()

    def undeclare(self) -> None:
        """Begin a new flow of which nothing is known, with the next byte. Raises NoAgent, OSError."""
        options.undeclare(self._sock)
        self._begin()

    def declared(self) -> DeclaredFlow:
        """Return the declaration of the current flow. Raises NoAgent, OSError."""
        return options.declared(self._sock)

    def state(self) -> FlowState:
        """Return the state of the current flow. Raises NoAgent, OSError."""
        return options.state(self._sock)

    def _begin(self) -> None:
        self._phase = Phase.SENDING
        self._written_bytes = 0

    def _add_written(self, size_bytes: int) -> None:
        if self._written_bytes is not None:
            self._written_bytes += size_bytes

    def _check(self) -> FlowState:
        """Return the flow's state; call on_phase if the phase has changed. Raises FlowQuenched."""
        now = self.state()
        if now.phase != self._phase:
            self._phase = now.phase
            if self._on_phase is not None:
                self._on_phase(now)
        if now.phase == Phase.KILLED:
            raise FlowQuenched(now)
        return now

    def _is_acknowledged(self) -> bool:
        """Whether the receiver has acknowledged all that was written. Raises FlowQuenched, SluiceError."""
        if self._written_bytes is None:
            raise SluiceError(
                "wait_acknowledged: no flow is declared on this socket: call declare() before the first byte is sent"
            )
        return self._check().acked_bytes >= self._written_bytes


class DeadlineSocket(_Flows):
    """A connected TCP socket whose flows have deadlines. As a context manager, it closes the socket.

    The timeout of the socket (settimeout) bounds each call as a whole.
    """

    def __init__(self, sock: socket.socket, on_phase: Callable[[FlowState], None] | None = None) -> None:
        """`on_phase` is called when the kernel suspends, resumes or kills the flow.

        It runs in the thread that sends or waits.
        """
        super().__init__(sock, on_phase)
        self.sock = sock

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
            self._check()
            if writable.poll(timeout.wait_ms()):
                # MSG_DONTWAIT, because Python's send() waits on a socket with a timeout.
                sent = self.sock.send(remaining[:_CHUNK_BYTES], socket.MSG_DONTWAIT)
                remaining = remaining[sent:]
                self._add_written(sent)
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
        while not self._is_acknowledged():
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


class DeadlineStream(_Flows):
    """The writer of an asyncio stream whose flows have deadlines.

    Drain the writer before `declare`: bytes of an earlier flow that it still holds would count as the new flow's.
    """

    def __init__(
        self, writer: asyncio.StreamWriter, on_phase: Callable[[FlowState], None] | None = None
    ) -> None:
        """`on_phase` is called when the kernel suspends, resumes or kills the flow.

        It runs in the thread of the event loop.
        """
        super().__init__(writer.get_extra_info("socket"), on_phase)
        self.writer = writer

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Write data and drain the writer.

        Raises FlowQuenched at most about 20 ms after the kernel killed the flow, even while the call
        waits. The bytes that the writer still holds are useless then: call `writer.transport.abort()`.
        """
        self._check_phase()
        self.writer.write(data)
        self._add_written(len(memoryview(data).cast("B")))
        drained = asyncio.ensure_future(self.writer.drain())
        try:
            while not (await asyncio.wait({drained}, timeout=POLL_INTERVAL_S))[0]:
                self._check_phase()
            drained.result()
        finally:
            drained.cancel()

    async def wait_acknowledged(self) -> None:
        """Return when the receiver's kernel has all data of this flow.

        Raises FlowQuenched; ConnectionError if the connection is closed before that; SluiceError if no
        flow is declared.
        """
        while self._is_closed() or not self._is_acknowledged():
            if self.writer.transport.is_closing():
                raise ConnectionResetError(
                    errno.ECONNRESET, "the connection closed before the receiver had acknowledged all data"
                )
            await asyncio.sleep(POLL_INTERVAL_S)

    def _check_phase(self) -> None:
        # After asyncio has closed the socket, the writer's own error says why.
        if not self._is_closed():
            self._check()

    def _is_closed(self) -> bool:
        return int(self.writer.get_extra_info("socket").fileno()) < 0
