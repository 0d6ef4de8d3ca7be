# SPDX-License-Identifier: Apache-2.0
"""The policy in the loop: thresholds follow the traffic that a port has carried since the run began."""

from __future__ import annotations

from typing import Any

from sluice.runs.files import scenario_with
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps, ThresholdsMoved
from sluice.topologies import build_topology

DOCUMENT: dict[str, Any] = {
    "name": "loop",
    "fabric": {"topology": "single", "hosts": 3, "host_rate": "10Gbit", "link_delay": "20us"},
    "scheme": {
        "name": "mlfq-adaptive",
        "queues": 2,
        "thresholds": ["1000KB"],
        "percentiles": [10],
        "window_ms": 250,
        "interval_ms": 200,
    },
    "workload": {
        "flow": [
            {"from": "h2", "to": "h1", "bytes": "10KB", "start": f"{start_ms}ms"}
            for start_ms in (10, 40, 70, 100, 130, 160, 500)
        ]
    },
}


def moves_at(port: str, **fields: Any) -> list[ThresholdsMoved]:
    """Return the thresholds of a port during the run."""
    scenario, *_ = scenario_with({**DOCUMENT, "scheme": {**DOCUMENT["scheme"], **fields}})
    moved: list[ThresholdsMoved] = []
    Simulation(
        scenario, build_topology(scenario), Taps(flows=lambda columns: None, thresholds=moved.append)
    ).run()
    return [move for move in moved if move.port == port]


def test_the_first_adjustment_counts_what_completed_before_it() -> None:
    [start, first, *_] = moves_at("s1:1")
    assert (start.at_s, start.thresholds_bytes) == (0.0, (1_000_000,))
    assert (first.at_s, first.thresholds_bytes, first.flows) == (0.2, (10_000,), 6)


def test_a_port_whose_thresholds_are_fixed_or_frozen_keeps_them() -> None:
    (fixed,) = moves_at("s1:1", overrides=[{"ports": ["s1:1"], "thresholds": ["100KB"]}])
    assert fixed.thresholds_bytes == (100_000,)
    (frozen,) = moves_at("s1:1", overrides=[{"ports": ["*"], "freeze": True}])
    assert frozen.thresholds_bytes == (1_000_000,)
