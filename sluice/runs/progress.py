# SPDX-License-Identifier: Apache-2.0
"""The progress of a run, in the same form on the testbed and on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policy.scenario import Scenario


@dataclass(frozen=True)
class Progress:
    """How many flows of a run have ended, and how much time is left."""

    elapsed_s: float
    expected_s: float
    recorded: int
    scheduled: int


Report = Callable[[Progress], None]


def flow_count(scenario: Scenario) -> int:
    """Return the number of flows in a run. A fabric may have drawn only the first of them so far."""
    flows = scenario.workload.flows
    return flows if isinstance(flows, int) else len(flows)
