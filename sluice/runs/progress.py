# SPDX-License-Identifier: Apache-2.0
"""How far a run is: the same on the testbed and on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policy.scenario import Scenario


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
