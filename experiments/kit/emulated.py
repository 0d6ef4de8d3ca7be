# SPDX-License-Identifier: Apache-2.0
"""Settings of the simulator that make its network like the testbed's emulated one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIMULATOR_SETTINGS: Mapping[str, Any] = {
    "links": "emulated",
    "uplink": "kernel",
    "tick": "4ms",
    "undo": "late",
    "packets_per_ack": 2,
    "ack_delay": "40ms",
}
"""Links are HTB's token buckets. A host's own port has the scheme's queues, and TCP small queues keep them short.
A kernel acknowledges every second packet, or after 40 ms. Its clock has 250 Hz."""

LINK_DELAY_US = 106.0
"""Software's time for a link of an idle testbed, in microseconds: `agreement` measured 80, 96 and 106."""


def as_emulated(document: Mapping[str, Any], delay_us: float = LINK_DELAY_US) -> dict[str, Any]:
    """Return a testbed's scenario for the simulator. The document's own settings have precedence."""
    return {
        **document,
        "fabric": {"link_delay": f"{round(delay_us * 1000)}ns", **document["fabric"]},
        "simulator": {**SIMULATOR_SETTINGS, **document.get("simulator", {})},
    }
