# SPDX-License-Identifier: Apache-2.0
"""What the links of an emulated network are: token buckets, of hosts and of switch ports.

A testbed is set up with these figures, and the simulator can be told to have the same links.
"""

from __future__ import annotations

HOST_BURST_BYTES = 3_100
"""Two frames: a host's packets leave it paced."""

LATE_NS = 2_000_000
"""How late the timer of a switch port's HTB may fire without loss of rate, on a busy machine."""

MOST_BURST_BYTES = 65_000
"""An MTU has to hold it."""


def port_burst_bytes(rate_bps: int) -> int:
    """Credit of a port's HTB classes, in bytes: two frames, or what the link carries in LATE_NS.

    A port that loses rate whenever a timer is late sends less than its virtual queue (dataplane/laws/mark.h) supposes,
    and the difference is a queue that nothing marks and nothing bounds: it grew by some 50 KB a second at 100 Mb/s.
    With the credit, the real queue is shorter than the virtual one by as much as was sent at once after a pause.
    """
    return min(max(HOST_BURST_BYTES, rate_bps * LATE_NS // 8_000_000_000), MOST_BURST_BYTES)
