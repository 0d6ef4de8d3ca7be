# SPDX-License-Identifier: Apache-2.0
"""A scheduled flow, told to the kernel on its socket, and how it fares there; nothing where no agent's hook answers."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from typing import Any

from hostagent import tcp
from hostagent.sockets import flow as deadline
from hostagent.sockets.flow import FlowFields, FlowState, NoAgent
from policy.controls import PREFIX
from policy.schedule import ScheduledFlow
from policy.units import US_PER_S

HEARD_BYTES = 1_000_000
"""Flows of this size have windows of data to count, whatever the link."""


def wishes(flow: ScheduledFlow) -> bool:
    """There is something to tell of this flow."""
    return flow.deadline_us is not None or flow.importance is not None or flow.size_known


def tell(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Tell of the flow that is written next; False when nobody on this machine listens."""
    try:
        deadline.tell(sock, **_fields(flow))
    except NoAgent:
        return False
    return True


def _fields(flow: ScheduledFlow) -> FlowFields:
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
    return fields


def state(sock: socket.socket) -> FlowState | None:
    """None when nobody on this machine answers."""
    try:
        return deadline.state(sock)
    except NoAgent:
        return None


def is_heard(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Did the congestion control see what was told? False after a whole long flow of which it has counted no window.

    So it is when hook and control were loaded from builds that do not share their memory.
    """
    if flow.bytes < HEARD_BYTES or not tcp.congestion_control(sock).startswith(PREFIX):
        return True
    now = state(sock)
    return now is None or now.windows > 0


def sample(state: FlowState) -> Mapping[str, Any]:
    """What a sample of a flow holds of its state."""
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
