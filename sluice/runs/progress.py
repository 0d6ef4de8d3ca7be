# SPDX-License-Identifier: Apache-2.0
"""The progress of a run, in the same form on the testbed and on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.policy.workload.scenario import Scenario
from sluice.runs.partial import RunningFigures

LEAST_SHARE = 0.01
"""Before this part of a run, the time left is unknown."""


@dataclass(frozen=True)
class Progress:
    """How many flows of a run have ended, and how much time is left."""

    elapsed_s: float
    """The place of the run in `expected_s`. On the simulator both are numbers of flows."""
    expected_s: float
    recorded: int
    scheduled: int
    figures: RunningFigures | None = None
    """The figures of the flows that have ended."""

    @property
    def share(self) -> float:
        """The part of the run that is over, 0 to 1."""
        return min(max(self.elapsed_s / self.expected_s, 0.0), 1.0) if self.expected_s > 0 else 0.0

    def remaining_s(self, since_s: float) -> float | None:
        """Return the seconds left, of a run that began `since_s` ago; None while they are unknown."""
        return since_s * (1 / self.share - 1) if self.share > LEAST_SHARE else None


Report = Callable[[Progress], None]


def flow_count(scenario: Scenario) -> int:
    """Return the number of flows in a run. A fabric may have drawn only the first of them so far."""
    flows = scenario.workload.flows
    return flows if isinstance(flows, int) else len(flows)
