# SPDX-License-Identifier: Apache-2.0
"""When a port marks packets and how much it buffers: the part of a policy that the port program carries out."""

from __future__ import annotations

from dataclasses import dataclass

from policy.entries import entry
from policy.kinds import Flag, Whole

DEFAULT_BUFFER_BYTES = 360_000
PHANTOM_PERCENT = 95
"""A phantom queue drains at this share of the link's rate (gamma; HULL, Alizadeh et al., NSDI 2012)."""
MAX_BACKLOG_BYTES = 10**9

_BACKLOG = Whole(1, MAX_BACKLOG_BYTES, "bytes")


@dataclass(frozen=True)
class PortMarking:
    """Marking and buffer of one kind of port (edge or core). PortSettings of dataplane has the same fields."""

    mark_bytes: int | None = entry(
        _BACKLOG,
        "K; with mark_max_bytes, the lower end of the ramp. Null: the port does not mark by its backlog.",
        default=None,
    )
    buffer_bytes: int = entry(
        _BACKLOG, "Size of the port's buffer, which all its queues share.", default=DEFAULT_BUFFER_BYTES
    )
    mark_max_bytes: int | None = entry(_BACKLOG, "Upper end of the ramp. Null: one threshold.", default=None)
    phantom_mark_bytes: int | None = entry(
        _BACKLOG, "Threshold of the phantom queue. Null: there is no phantom queue.", default=None
    )
    urgent_first: bool = entry(
        Flag(),
        "Whether the port drops what is least urgent first (dataplane/laws/drop_order.h).",
        default=False,
    )
