# SPDX-License-Identifier: Apache-2.0
"""A host opens thousands of one-packet connections to a port. Three others send flows of 10 KB and 1 MB there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluice.runs.files import scenario_with
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps, ThresholdsMoved
from sluice.topologies import build_topology

HONEST, HOSTILE = ("h2", "h3", "h4"), "h5"
SCHEMES: dict[str, dict[str, Any]] = {
    "mlfq-adaptive": {"percentiles": [50]},
    "sluice": {"mark_by": "port", "least_threshold": "1KB"},
}
PORT = "s1:1"


def flow(source: str, size: str, start_us: int) -> dict[str, Any]:
    return {"from": source, "to": "h1", "bytes": size, "start": f"{start_us}us"}


def thresholds(scheme: str, *, attacked: bool, robust: bool = True) -> set[int]:
    """Return the port's thresholds after the first quarter of a second."""
    rng = np.random.default_rng(1)
    flows = [
        flow(str(rng.choice(HONEST)), "1000KB" if rng.random() < 0.1 else "10KB", at)
        for at in range(0, 600_000, 1000)
    ]
    if attacked:
        flows += [flow(HOSTILE, "100B", at) for at in range(100_000, 600_000, 200)]
    scenario, *_ = scenario_with(
        {
            "name": "hostile-ends",
            "fabric": {"topology": "single", "hosts": 5, "host_rate": "1Gbit", "link_delay": "10us"},
            "scheme": {
                "name": scheme,
                "queues": 2,
                "thresholds": ["10KB"],
                "window_ms": 200,
                "interval_ms": 50,
                "robust_ends": robust,
                **SCHEMES[scheme],
            },
            "workload": {"flow": sorted(flows, key=lambda one: int(one["start"][:-2]))},
        }
    )
    moved: list[ThresholdsMoved] = []
    Simulation(scenario, build_topology(scenario), Taps(flows=lambda _: None, thresholds=moved.append)).run()
    of_port = [move for move in moved if move.port == PORT]
    late = [move.thresholds_bytes[0] for move in of_port if 0.25 <= move.at_s <= 0.6]
    return {*late, [move.thresholds_bytes[0] for move in of_port if move.at_s <= 0.6][-1]}


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_tiny_connections_of_one_host_move_no_threshold(scheme: str) -> None:
    assert thresholds(scheme, attacked=True) == thresholds(scheme, attacked=False) == {10_000}


def test_without_robust_ends_they_are_the_median() -> None:
    assert thresholds("mlfq-adaptive", attacked=True, robust=False) == {1_000}
