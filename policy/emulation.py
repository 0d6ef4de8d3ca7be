# SPDX-License-Identifier: Apache-2.0
"""Token buckets of an emulated network's links, at hosts and at switch ports.

The testbed uses these values. So does the simulator if a scenario sets `links = "emulated"`.
"""

from __future__ import annotations

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
