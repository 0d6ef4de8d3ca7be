# SPDX-License-Identifier: Apache-2.0
"""Declare a TCP flow to the kernel from any Python program: size, deadline, importance.

    from sluice.hostagent.sockets import DeadlineSocket, FlowQuenched

    with DeadlineSocket(socket.create_connection(server)) as flow:
        flow.declare(
            size_bytes=len(data), deadline_s=0.025, quench="kill", congestion_control="sluice_datcp"
        )
        flow.sendall(data)          # raises FlowQuenched if the kernel kills the flow
        flow.wait_acknowledged()    # returns when the receiver's kernel has all data
        print(flow.state().urgency)

- `DeadlineSocket` wraps a socket, `DeadlineStream` an asyncio stream (deadline.py).
- `http.start_server` and `http.declaring` make an asyncio server declare the size of each HTTP response by itself.
- `declare`, `undeclare`, `declared` and `state` (options.py) serve programs that send by themselves.
- `FlowFields` (flow.py) lists what a program can declare, `FlowState` (options.py) what it can read.
- All errors are SluiceError: WrongField, NoAgent, FlowQuenched. A broken connection raises OSError.

No privileges are needed, but a Sluice agent must run on the machine. dataplane/include/sluice.h says
what the kernel does with a declaration.
"""

from sluice.hostagent.sockets.deadline import DeadlineSocket, DeadlineStream, FlowQuenched
from sluice.hostagent.sockets.flow import FLOW, DeclaredFlow, FlowFields, Quench, WrongField, pack_flow
from sluice.hostagent.sockets.options import (
    STATE,
    FlowState,
    NoAgent,
    Phase,
    declare,
    declared,
    state,
    undeclare,
)

__all__ = [
    "FLOW",
    "STATE",
    "DeadlineSocket",
    "DeadlineStream",
    "DeclaredFlow",
    "FlowFields",
    "FlowQuenched",
    "FlowState",
    "NoAgent",
    "Phase",
    "Quench",
    "WrongField",
    "declare",
    "declared",
    "pack_flow",
    "state",
    "undeclare",
]
