# SPDX-License-Identifier: Apache-2.0
"""What the simulator has to be told so that its network is like the testbed's emulated one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIMULATOR_SETTINGS: Mapping[str, Any] = {
    "links": "emulated",
    "uplink": "fabric",
    "packets_per_ack": 2,
    "ack_delay": "40ms",
}
"""Links are token buckets. A kernel acknowledges every second packet, or after 40 ms. A testbed's host sends at the
link rate and TCP small queues keep its own queue, and with it the window, short; the simulator has none: there marks at
the host's own port keep both short."""

LINK_DELAY_US = 106.0
"""What software takes for a link of an idle testbed: experiments.checks.agreement has measured 80, 96 and 106."""


def as_emulated(document: Mapping[str, Any], delay_us: float = LINK_DELAY_US) -> dict[str, Any]:
    """A testbed's scenario for the simulator; what the document itself says of it has the last word."""
    return {
        **document,
        "fabric": {"link_delay": f"{round(delay_us * 1000)}ns", **document["fabric"]},
        "simulator": {**SIMULATOR_SETTINGS, **document.get("simulator", {})},
    }
