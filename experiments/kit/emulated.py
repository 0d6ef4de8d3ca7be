# SPDX-License-Identifier: Apache-2.0
"""Settings of the simulator that make its network like the testbed's emulated one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIMULATOR_SETTINGS: Mapping[str, Any] = {
    "links": "emulated",
    "uplink": "fabric",
    "packets_per_ack": 2,
    "ack_delay": "40ms",
}
"""Links are token buckets. A kernel acknowledges every second packet, or after 40 ms. On the
testbed, TCP small queues keep a host's own queue short, and with it the window. The simulator has
no such limit: there marks at the host's own port keep both short."""

LINK_DELAY_US = 106.0
"""The time of software for a link of an idle testbed: `agreement` measured 80, 96 and 106."""


def as_emulated(document: Mapping[str, Any], delay_us: float = LINK_DELAY_US) -> dict[str, Any]:
    """A testbed's scenario for the simulator; the document's own settings have the last word."""
    return {
        **document,
        "fabric": {"link_delay": f"{round(delay_us * 1000)}ns", **document["fabric"]},
        "simulator": {**SIMULATOR_SETTINGS, **document.get("simulator", {})},
    }
