# SPDX-License-Identifier: Apache-2.0
"""What runs on the testbed and on the simulator have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import topologies
from policy.graph import Topology
from policy.scenario import Scenario, check_topology


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    elapsed_s: float
    expected_s: float
    recorded: int
    scheduled: int


Report = Callable[[Progress], None]


def flow_count(scenario: Scenario) -> int:
    """All flows of a run, of which a fabric may have drawn only the first so far."""
    flows = scenario.workload.flows
    return flows if isinstance(flows, int) else len(flows)


def build_topology(scenario: Scenario) -> Topology:
    """The scenario's network; FieldError names a bad key of [fabric], or what the network lacks for the scenario."""
    topology = topologies.build(scenario.fabric.topology, **scenario.fabric.parameters)
    check_topology(scenario, topology)
    return topology
