# SPDX-License-Identifier: Apache-2.0
"""Ports: when they mark packets and how much they buffer, the token buckets of emulated links, and reserved DSCPs.

The port program carries out marking and buffer. The testbed's links, at hosts and at switch ports, are token buckets.
So are the simulator's if a scenario sets `links = "emulated"`.

Reserved DSCPs belong to others: hosts write no tag with these values, and keep them where others have set them. A flow
that would get a reserved tag gets the next tag of the same kind instead. It is the next larger one for attained service
and known sizes: a larger tag promises less, so it is true as well. For urgency it is the next less urgent one. If the
kind has no such tag, the nearest on the other side is written.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from sluice.policy import tags
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Choice, Flag, Number, Whole
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
    """Marking and buffer of one kind of port (edge or core)."""

    mark_bytes: int | None = entry(
        _BACKLOG,
        "K; with mark_max_bytes, the lower end of the ramp. Null: the port does not mark by its backlog.",
        default=None,
    )
    buffer_bytes: int = entry(
        _BACKLOG, "Size of the port's buffer, which all its queues share.", default=DEFAULT_BUFFER_BYTES
    )
    mark_max_bytes: int | None = entry(_BACKLOG, "Upper end of the ramp. Null: one threshold.", default=None)
    mark_chance: float = entry(
        Number(0, 1, above=True),
        "Probability of a mark at the upper end of the ramp. Above it, all are marked.",
        default=1.0,
    )
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


def mark_most_q32(chance: float) -> int:
    """The largest probability of a ramp, as laws/mark.h has it."""
    return max(round(chance * 2**32), 1)


HOST_BURST_BYTES = 3_100
"""Two frames, so that a host's packets leave paced."""

MAX_TIMER_DELAY_NS = 2_000_000
"""On a busy machine, the timer of a switch port's HTB may fire this late without loss of rate."""

MAX_BURST_BYTES = 65_000
"""Below the largest MTU, because Open vSwitch gives the root class the interface's MTU as its credit."""


def port_burst_bytes(rate_bps: int) -> int:
    """Credit of a port's HTB classes in bytes: two frames, or what the link carries in MAX_TIMER_DELAY_NS.

    Without the credit, a port loses rate whenever a timer is late. It then sends less than its virtual queue
    (dataplane/laws/mark.h) assumes. The difference is a queue that nothing marks and nothing bounds: it grew by
    about 50 KB per second at 100 Mb/s. With the credit, the port sends a burst after a pause and so catches up. The
    real queue is then shorter than the virtual queue by that burst.
    """
    return min(max(HOST_BURST_BYTES, rate_bps * MAX_TIMER_DELAY_NS // 8_000_000_000), MAX_BURST_BYTES)


def least_class_rate_bps(rate_bps: int) -> int:
    """Rate in bits per second that each HTB class of a port has for itself, and gets before all priorities.

    Open vSwitch gives a class at least one MTU a second, and the MTU of a port's interface is the port's credit.
    """
    return 8 * port_burst_bytes(rate_bps)


LOWEST, HIGHEST = 1, tags.BACKGROUND - 1
"""Background is the controller's own: it demotes hosts with it. DSCP 62 and 63 are no tags."""
MOST = 52
"""So a policy can have as few as eight tags, beside background."""

_KINDS = (
    (tags.ATTAINED_FIRST, tags.ATTAINED_LAST, 1),
    (tags.URGENCY_FIRST, tags.URGENCY_LAST, -1),
    (tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST, 1),
)
"""First and last tag of each kind, and the direction in which a tag promises less."""


def written_tag(tag: int, reserved: Collection[int]) -> int:
    """Return the tag that a host writes in place of `tag`."""
    if tag not in reserved:
        return tag
    for first, last, direction in _KINDS:
        if first <= tag <= last:
            free = [other for other in range(first, last + 1) if other not in reserved]
            ahead = [other for other in free if (other - tag) * direction > 0]
            # A kind without any free tag becomes background traffic.
            return min(ahead or free, key=lambda other: abs(other - tag), default=tags.BACKGROUND)
    return tag


def has_attained(reserved: Collection[int]) -> bool:
    """Return whether a tag of attained service is not reserved. Most packets need one."""
    return not set(range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)) <= set(reserved)


def last_attained(reserved: Collection[int]) -> int:
    """Return the largest tag of attained service that is not reserved. It has no upper edge."""
    return max(tag for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1) if tag not in reserved)
