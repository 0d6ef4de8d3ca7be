# SPDX-License-Identifier: Apache-2.0
"""The errors of declared flows. All of them are SluiceError; a broken connection raises OSError."""

from sluice.hostagent.sockets.flow_state import FlowState
from sluice.policy.errors import EnvironmentLacking, FieldError, SluiceError


class WrongField(FieldError, ValueError):
    """A field of the declaration has a value that is not allowed. The socket is unchanged."""


class NoAgent(EnvironmentLacking):
    """No Sluice agent runs on this machine, so the kernel takes no declarations."""


class FlowQuenched(SluiceError):
    """The kernel has killed the flow because it cannot meet its deadline: close the connection."""

    def __init__(self, state: FlowState) -> None:
        super().__init__(
            f"the kernel killed the flow after {state.acked_bytes} bytes because it cannot meet its deadline: "
            "close the connection, or declare another flow on it"
        )
        self.state = state
        """The flow's state when the kill was noticed."""
