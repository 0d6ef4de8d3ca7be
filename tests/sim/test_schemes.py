# SPDX-License-Identifier: Apache-2.0
"""Every scheme runs a scenario on a small fabric: all flows end, and the count of packets is right."""

from typing import Any

import numpy as np
import pytest

from sluice.policy.schemes import SCHEMES
from sluice.simulator.taps import OUTCOMES
from tests.sim.runs import run

FLOWS = 120
DOCUMENT: dict[str, Any] = {
    "name": "schemes",
    "fabric": {
        "topology": "leaf-spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 4,
        "host_rate": "10Gbit",
        "core_rate": "10Gbit",
        "link_delay": "2us",
        "buffer": "150KB",
    },
    "transport": {"rto_min": "2ms"},
    "workload": {
        "sizes": "web-search",
        "pattern": "all-to-all",
        "load": 0.8,
        "flows": FLOWS,
        "size_known": 0.5,
    },
    "deadlines": {"share": 0.4, "distribution": "uniform", "min": "3ms", "max": "60ms"},
}


def outcomes(**changes: Any) -> dict[str, int]:
    """Return how many flows had each outcome. Check that the fabric accounts for every packet."""
    made = run(DOCUMENT, **changes)
    made.simulation.fabric.audit()
    counts = np.bincount(made.flows["outcome"], minlength=len(OUTCOMES))
    return dict(zip(OUTCOMES, counts.tolist(), strict=True))


@pytest.mark.parametrize("recovery", ["linux", "plain"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_scheme__all_flows_end(scheme: str, recovery: str) -> None:
    ended = outcomes(scheme={"name": scheme}, simulator={"recovery": recovery})
    assert ended == {"finished": FLOWS, "killed": 0, "ended": 0, "unfinished": 0}


@pytest.mark.parametrize("scheme", ["dctcp", "tcp", "sluice"])
@pytest.mark.parametrize(
    "simulator",
    [
        {"multipath": "per-packet", "packets_per_ack": 2},
        {"links": "emulated"},
        {"uplink": "unshaped", "late": "plain"},
        {"links": "emulated", "uplink": "kernel", "tick": "4ms", "packets_per_ack": 2},
    ],
    ids=["sprayed", "emulated", "unshaped", "kernel"],
)
def test_simulator_setting__all_flows_end(scheme: str, simulator: dict[str, Any]) -> None:
    ended = outcomes(scheme={"name": scheme}, simulator=simulator)
    assert ended["finished"] == FLOWS
