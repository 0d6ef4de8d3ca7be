# SPDX-License-Identifier: Apache-2.0
"""The predicted work of a sweep's points, from which the display takes the time left.

On the simulator, the work is the number of bytes that cross ports. On the testbed, it is the time in which flows start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sluice.policy.fabrics import TESTBED
from sluice.policy.network.graph import Topology
from sluice.policy.units import BITS_PER_BYTE
from sluice.policy.workload.flows import TraceWorkload, Workload
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.random_flows import arrival_rate_per_s
from sluice.policy.workload.scenario import Scenario
from sluice.policy.workload.sizes import Mix, SizeCdf, mean_wire_bytes
from sluice.runs.files import Resolved


@dataclass(frozen=True)
class Work:
    """The work of one point."""

    scheme: str
    """Points of one scheme take a similar time for the same work."""
    amount: float | None
    """In any unit that all points of a sweep share; None if it is unknown."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The resolved scenario."""


def predicted_work(resolved: Resolved, on: str) -> float | None:
    """Return the work of a scenario on a fabric; None if it is unknown."""
    scenario, _, topology = resolved
    if on == TESTBED:
        return _starting_s(scenario, topology) or None
    return _wire_bytes(scenario, topology) * _mean_hops(topology) or None


def _mean_hops(topology: Topology) -> float:
    """Return the mean number of ports on the paths from the first host."""
    first, *others = [host.name for host in topology.hosts]
    return float(np.mean([len(topology.one_path(first, name)) for name in others]))


def _wire_bytes(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        rate_bytes_per_s = topology.ports[0].rate_bps / BITS_PER_BYTE
        return sum(
            flow.bytes or ((flow.until_s or 0.0) - flow.start_s) * rate_bytes_per_s for flow in workload.flows
        )
    if isinstance(workload, TraceWorkload):
        return float(workload.trace.size_bytes[: workload.flows].sum()) * workload.scale
    return sum(
        flows * float(mean_wire_bytes(sizes, workload.scale).sum()) for flows, sizes in _phases(workload)
    )


def _starting_s(scenario: Scenario, topology: Topology) -> float:
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        return max(flow.until_s or flow.start_s for flow in workload.flows)
    if isinstance(workload, TraceWorkload):
        return float(workload.trace.gap_s[: workload.flows].sum())
    return sum(
        flows / workload.fanin / arrival_rate_per_s(workload, topology, sizes)
        for flows, sizes in _phases(workload)
    )


def _phases(workload: Workload) -> list[tuple[float, SizeCdf | Mix]]:
    """Return the numbers of flows with the sizes before, between and after the shifts."""
    begins = [0.0, *(shift.at for shift in workload.shifts)]
    ends = [*begins[1:], 1.0]
    parts = zip(begins, ends, workload.all_sizes, strict=True)
    return [((end - begin) * workload.flows, sizes) for begin, end, sizes in parts]
