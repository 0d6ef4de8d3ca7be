# SPDX-License-Identifier: Apache-2.0
"""Runs of whole scenarios, with all that they hand out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sluice.runs.files import scenario_with
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Columns, Taps, ThresholdsMoved
from sluice.topologies import build_topology


class Run(NamedTuple):
    """A run that has ended."""

    simulation: Simulation
    flows: Columns
    """The columns of `Taps.flows`, in the order of the flows' numbers."""
    moved: list[ThresholdsMoved]

    def thresholds(self, port: str) -> list[ThresholdsMoved]:
        """Return the thresholds of a port, one after the other."""
        return [move for move in self.moved if move.port == port]


def run(document: Mapping[str, Any], **changes: Any) -> Run:
    """Run a scenario until its end."""
    scenario, *_ = scenario_with(document, **changes)
    ended: list[Columns] = []
    moved: list[ThresholdsMoved] = []
    simulation = Simulation(scenario, build_topology(scenario), Taps(ended.append, moved.append))
    simulation.run()
    flows = {name: np.concatenate([columns[name] for columns in ended]) for name in ended[0]}
    order = np.argsort(flows["number"])
    return Run(simulation, {name: column[order] for name, column in flows.items()}, moved)
