# SPDX-License-Identifier: Apache-2.0
"""Start times of flows: a Poisson process whose rate follows from the load of the links."""

from __future__ import annotations

import numpy as np

from sluice.policy.columns import Array
from sluice.policy.graph import Topology
from sluice.policy.ideal import edge_ports
from sluice.policy.sizes import Mix, SizeCdf, mean_wire_bytes
from sluice.policy.workload import Workload


def arrival_rate_per_s(workload: Workload, topology: Topology, sizes: SizeCdf | Mix) -> float:
    """Starts per second in the whole network; for an incast, requests per second.

    The load, if the workload has one, is that of the receiver's link. Without a single receiver, every host's link
    has this load on average. Loads include the headers of every segment.
    """
    if workload.load is None:
        assert workload.interarrival_s is not None
        return 1 / workload.interarrival_s
    names = [workload.to] if workload.to else [host.name for host in topology.hosts]
    capacity_bps = sum(port.rate_bps for port in edge_ports(topology) if port.peer in names)
    mean_bytes = float(mean_wire_bytes(sizes, workload.scale).sum()) * workload.fanin
    return workload.load * capacity_bps / (8 * mean_bytes)


class Poisson:
    """Start times of consecutive flows. Groups of `together` flows start at the same time."""

    def __init__(self, rng: np.random.Generator, together: int = 1) -> None:
        self._rng, self._together, self._now_s = rng, together, 0.0

    def starts_s(self, mean_gap_s: Array) -> Array:
        """Start times of the next flows.

        `mean_gap_s`: for each flow, the mean time since the start before. Only the last call may end within a group.
        """
        groups = mean_gap_s[:: self._together]
        gaps_s = self._rng.standard_exponential(len(groups)) * groups
        gaps_s[0] += self._now_s
        starts_s = np.cumsum(gaps_s)
        self._now_s = float(starts_s[-1])
        return np.repeat(starts_s, self._together)[: len(mean_gap_s)]
