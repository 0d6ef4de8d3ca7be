# SPDX-License-Identifier: Apache-2.0
"""When flows start: a Poisson process whose rate follows from the load that the links shall carry."""

from __future__ import annotations

import numpy as np

from policy.columns import Array
from policy.graph import Topology
from policy.ideal import edge_ports
from policy.sizes import Mix, SizeCdf, mean_wire_bytes
from policy.workload import Workload


def arrival_rate_per_s(workload: Workload, topology: Topology, sizes: SizeCdf | Mix) -> float:
    """Starts per second over the whole network, of incast requests per second.

    With a load: so many that the receiver's link carries it, or where there is not one receiver, every host's link on
    average; headers included, segment by segment.
    """
    if workload.load is None:
        assert workload.interarrival_s is not None
        return 1 / workload.interarrival_s
    names = [workload.to] if workload.to else [host.name for host in topology.hosts]
    capacity_bps = sum(port.rate_bps for port in edge_ports(topology) if port.peer in names)
    mean_bytes = float(mean_wire_bytes(sizes, workload.scale).sum()) * workload.fanin
    return workload.load * capacity_bps / (8 * mean_bytes)


class Poisson:
    """Start times, one after the other; `together` flows start at once."""

    def __init__(self, rng: np.random.Generator, together: int = 1) -> None:
        self._rng, self._together, self._now_s = rng, together, 0.0

    def starts_s(self, mean_gap_s: Array) -> Array:
        """Of the next flows, whose mean times since the start before are given; whole groups but at the end."""
        groups = mean_gap_s[:: self._together]
        gaps_s = self._rng.standard_exponential(len(groups)) * groups
        gaps_s[0] += self._now_s
        starts_s = np.cumsum(gaps_s)
        self._now_s = float(starts_s[-1])
        return np.repeat(starts_s, self._together)[: len(mean_gap_s)]
