# SPDX-License-Identifier: Apache-2.0
"""Declares the agent's own flows to the kernel, and reads how they progress."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from typing import Any

from sluice.hostagent import tcp
from sluice.hostagent.sockets import FlowFields, FlowState, NoAgent, options
from sluice.policy.controls import PREFIX
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ScheduledFlow

LONG_FLOW_BYTES = 1_000_000
"""A flow of this size has several windows of data on any link."""


def needs_declaration(flow: ScheduledFlow) -> bool:
    """Whether the flow has a deadline, an importance or a known size."""
    return flow.deadline_us is not None or flow.importance is not None or flow.size_known


def declare(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Declare the flow that is written next. Returns False if no agent on this machine has the hook attached."""
    try:
        options.put(sock, **_fields(flow))  # a scenario may have hopeless deadlines
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
    """Return the state of the socket's flow; None if no agent on this machine has the hook attached."""
    try:
        return options.state(sock)
    except NoAgent:
        return None


def reached_control(sock: socket.socket, flow: ScheduledFlow) -> bool:
    """Whether the congestion control has seen the declaration of a flow that is now complete.

    It has not if it counted no window of a long flow. The reason is that hook and control come from
    builds that do not share their memory. For a short flow or a control of the kernel: True.
    """
    if flow.bytes < LONG_FLOW_BYTES or not tcp.congestion_control(sock).startswith(PREFIX):
        return True
    now = state(sock)
    return now is None or now.windows > 0


def sample(state: FlowState) -> Mapping[str, Any]:
    """Return the part of a flow's sample that comes from its state."""
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
