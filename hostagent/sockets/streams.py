# SPDX-License-Identifier: Apache-2.0
"""asyncio streams whose flows have deadlines."""

import asyncio
import errno
from collections.abc import Callable
from typing import Unpack

from sluice.hostagent.sockets import options
from sluice.hostagent.sockets.flow import DeclaredFlow, FlowFields
from sluice.hostagent.sockets.flow_state import FlowState
from sluice.hostagent.sockets.monitor import POLL_INTERVAL_S, FlowMonitor
from sluice.hostagent.sockets.options import HasOptions


class DeadlineStream:
    """The writer of an asyncio stream whose flows have deadlines.

    One connection carries any number of flows, one after the other: call `declare` before each.
    """

    def __init__(
        self, writer: asyncio.StreamWriter, on_phase: Callable[[FlowState], None] | None = None
    ) -> None:
        """`on_phase` is called when the kernel suspends, resumes or kills the flow.

        It runs in the thread of the event loop.
        """
        self.writer = writer
        self._sock: HasOptions = writer.get_extra_info("socket")
        self._monitor = FlowMonitor(self._sock, on_phase)

    def declare(self, **flow: Unpack[FlowFields]) -> None:
        """Declare a new flow, which begins with the next byte. See `options.declare` for the errors.

        Drain the writer first: bytes of an earlier flow that it still holds would count as the new flow's.
        """
        options.declare(self._sock, **flow)
        self._monitor.begin()

    def undeclare(self) -> None:
        """Begin a new flow of which nothing is known, with the next byte. Raises NoAgent, OSError."""
        options.undeclare(self._sock)
        self._monitor.begin()

    def declared(self) -> DeclaredFlow:
        """Return the declaration of the current flow. Raises NoAgent, OSError."""
        return options.declared(self._sock)

    def state(self) -> FlowState:
        """Return the state of the current flow. Raises NoAgent, OSError."""
        return options.state(self._sock)

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Write data and drain the writer.

        Raises FlowQuenched at most about 20 ms after the kernel killed the flow, even while the call
        waits. The bytes that the writer still holds are useless then: call `writer.transport.abort()`.
        """
        self._check_phase()
        self.writer.write(data)
        self._monitor.add_written(len(memoryview(data).cast("B")))
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
        while self._is_closed() or not self._monitor.is_acknowledged():
            if self.writer.transport.is_closing():
                raise ConnectionResetError(
                    errno.ECONNRESET, "the connection closed before the receiver had acknowledged all data"
                )
            await asyncio.sleep(POLL_INTERVAL_S)

    def _check_phase(self) -> None:
        # After asyncio has closed the socket, the writer's own error says why.
        if not self._is_closed():
            self._monitor.check()

    def _is_closed(self) -> bool:
        return int(self.writer.get_extra_info("socket").fileno()) < 0
