# SPDX-License-Identifier: Apache-2.0
"""When a port marks packets and how much it buffers: the part of a policy that the port program carries out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sluice.policy.entries import entry
from sluice.policy.kinds import Choice, Flag, Whole
from sluice.policy.units import PACKET_BYTES

REFERENCE_MARK_BYTES = 65 * PACKET_BYTES
"""K of the papers, for 10 Gb/s and round trips of about 80 us (Alizadeh et al., SIGCOMM 2010: DCTCP)."""
DEFAULT_BUFFER_BYTES = 360_000
"""A port's buffer where K is REFERENCE_MARK_BYTES (Wang, Xu, Liu, APNet 2017). It scales with K."""
PHANTOM_PERCENT = 95
"""A phantom queue drains at this share of the link's rate (gamma; HULL, Alizadeh et al., NSDI 2012)."""
MIN_BUFFER_BYTES = 3_000
MAX_BACKLOG_BYTES = 10**9

_BACKLOG = Whole(1, MAX_BACKLOG_BYTES, "bytes")


MAX_MARK_FACTOR = 100
MARKS_IN_BUFFER = 20
"""By default, a port that marks by its own queue has room for so many marking thresholds: each queue grows up to its
threshold, and a queue that waits for others does not shrink."""
LEAST_MARKS_IN_BUFFER = 15
"""In a smaller buffer, marks by queue let queues that wait fill it, so a port marks by its whole backlog by default."""


class MarkBy(StrEnum):
    """The backlog that a packet finds and that decides whether it is marked (dataplane/laws/drop_order.h)."""

    PORT = "port"
    """All that waits at the port (PIAS)."""
    QUEUE = "queue"
    """What waits in the packet's own queue."""
    AHEAD = "ahead"
    """What waits in its own queue and in those that are served before it."""


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
    mark_by: str = entry(
        Choice(tuple(MarkBy)),
        "The backlog that marks a packet: of the whole port, of its own queue, or of all that is served before it.",
        default=MarkBy.PORT,
    )
    last_queue: int = entry(Whole(0, 7), "The lowest queue of the port.", default=7)
    last_mark_factor: int = entry(
        Whole(1, MAX_MARK_FACTOR),
        "mark_bytes of the lowest queue, as a multiple of that of the others.",
        default=1,
    )


def last_mark_bytes(mark_bytes: int | None, factor: int) -> int:
    """K of the lowest queue; 0 if it is that of the others (dataplane/laws/drop_order.h)."""
    return min(mark_bytes * factor, MAX_BACKLOG_BYTES) if mark_bytes and factor > 1 else 0
