# SPDX-License-Identifier: Apache-2.0
"""Small scenarios for whole runs: one switch, h1 receives."""

from typing import Any

RATE_BPS = 25e6
RATE = f"{RATE_BPS:.0f}bit"
GOODPUT_BPS = RATE_BPS * 1448 / 1514
"""TCP payload of a full link: 1448 bytes of a frame's 1514."""


def scenario(name: str, **tables: Any) -> dict[str, Any]:
    """Return a scenario with 10 KB flows from h3 to h1 on an idle network. `tables` replace the default ones."""
    document: dict[str, Any] = {
        "name": name,
        "seed": 1,
        "fabric": {"topology": "single", "hosts": 4, "host_rate": RATE, "buffer": "200KB"},
        "scheme": {"name": "pias", "queues": 2, "thresholds": ["10KB"], "mark_at": "20pkt"},
        "transport": {"rto_min": "40ms"},
        "workload": {
            "mix": [{"bytes": "10KB", "share": 1.0, "from": ["h3"]}],
            "pattern": "many-to-one",
            "to": "h1",
            "load": 0.06,
            "flows": 100,
        },
    }
    return document | tables
