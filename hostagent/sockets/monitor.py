# SPDX-License-Identifier: Apache-2.0
"""Follows the declared flow of one socket: its phase, and how much of it the receiver has acknowledged."""

from collections.abc import Callable

from sluice.hostagent.sockets.errors import FlowQuenched
from sluice.hostagent.sockets.flow_state import FlowState, Phase
from sluice.hostagent.sockets.options import HasOptions, state
from sluice.policy.errors import SluiceError

POLL_INTERVAL_S = 0.02
"""A call that waits checks the flow's phase this often."""


class FlowMonitor:
    """Reads the flow's state when asked, and reports each change of its phase to `on_phase`."""

    def __init__(self, sock: HasOptions, on_phase: Callable[[FlowState], None] | None) -> None:
        self._sock = sock
        self._on_phase = on_phase
        self._phase = Phase.SENDING
        self.written_bytes: int | None = None
        """Bytes of the declared flow that the program has written; None before the first declaration."""

    def begin(self) -> None:
        """A new flow has been declared."""
        self._phase = Phase.SENDING
        self.written_bytes = 0

    def add_written(self, size_bytes: int) -> None:
        """Count bytes that the program has written."""
        if self.written_bytes is not None:
            self.written_bytes += size_bytes

    def check(self) -> FlowState:
        """Return the flow's state; call on_phase if the phase has changed. Raises FlowQuenched."""
        now = state(self._sock)
        if now.phase != self._phase:
            self._phase = now.phase
            if self._on_phase is not None:
                self._on_phase(now)
        if now.phase == Phase.KILLED:
            raise FlowQuenched(now)
        return now

    def is_acknowledged(self) -> bool:
        """Whether the receiver has acknowledged all that was written. Raises FlowQuenched, SluiceError."""
        if self.written_bytes is None:
            raise SluiceError(
                "wait_acknowledged: no flow is declared on this socket: call declare() before the first byte is sent"
            )
        return self.check().acked_bytes >= self.written_bytes
