# SPDX-License-Identifier: Apache-2.0
"""The ideal completion time of a flow: its FCT if it is alone in the network. Slowdowns are measured against it.

The sender's own link and every port on the path store and forward. The first segment crosses all links, and the
slowest link paces all later segments. With n segments, all full except the last, over links of rate r_j and delay d_j:

    ideal = sum_j (first / r_j + d_j) + (total - first) / min_j r_j

    first   bytes of the first segment on the link, headers included
    total   bytes of all segments on the link, headers included

The equation is exact if no link is slower than the last. It leaves out TCP's first windows, which cost a few round
trips more.

The core of a path is computed for pairs of edge switches, because a thousand hosts have a million pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.policy.columns import Array, wire_bytes
from sluice.policy.framing import HEADER_BYTES, MSS_BYTES
from sluice.policy.graph import Port, Topology

Indices = npt.NDArray[Any]


@dataclass(frozen=True)
class _Core:
    """The links between switches on one shortest path. Inverse rates are in seconds per bit."""

    inverse_sum: float = 0.0
    inverse_max: float = 0.0
    delay_us: float = 0.0

    def behind(self, port: Port) -> _Core:
        """The same path with this port before it."""
        inverse = _inverse(port)
        return _Core(
            self.inverse_sum + inverse, max(self.inverse_max, inverse), self.delay_us + port.delay_ns / 1000
        )


_NO_PATH = _Core(delay_us=math.inf)


def _inverse(port: Port) -> float:
    """Seconds per bit; infinite if the rate is unknown, which is 0."""
    return 1 / port.rate_bps if port.rate_bps else math.inf


class IdealTimes:
    """Ideal completion times in a topology. Hosts are indices in `topology.hosts`.

    A time is infinite if no path joins the hosts, or if the rate of a link is unknown.
    """

    def __init__(self, topology: Topology) -> None:
        edge = edge_ports(topology)
        self._inverse = np.asarray([_inverse(port) for port in edge])
        self._delay_us = np.asarray([port.delay_ns / 1000 for port in edge])
        switches = list(dict.fromkeys(port.switch for port in edge))
        place = {name: i for i, name in enumerate(switches)}
        self._edge = np.asarray([place[port.switch] for port in edge])
        cores = [_cores_towards(topology, port) for port in {p.switch: p for p in edge}.values()]
        between = [[core.get(source, _NO_PATH) for core in cores] for source in switches]
        self._inverse_sum = np.asarray([[core.inverse_sum for core in row] for row in between])
        self._inverse_max = np.asarray([[core.inverse_max for core in row] for row in between])
        self._core_delay_us = np.asarray([[core.delay_us for core in row] for row in between])

    def of(self, src: Indices, dst: Indices, size_bytes: npt.NDArray[Any]) -> Array:
        """Ideal completion times in microseconds, for flows of `size_bytes` from `src` to `dst` (indices of hosts)."""
        pair = (self._edge[src], self._edge[dst])
        first = np.minimum(size_bytes, MSS_BYTES) + HEADER_BYTES
        crossing = self._inverse[src] + self._inverse[dst] + self._inverse_sum[pair]
        slowest = np.maximum(np.maximum(self._inverse[src], self._inverse[dst]), self._inverse_max[pair])
        delay_us = self._delay_us[src] + self._delay_us[dst] + self._core_delay_us[pair]
        ideal_us: Array = 8e6 * (first * crossing + (wire_bytes(size_bytes) - first) * slowest) + delay_us
        return ideal_us


def ideal_fct_us(topology: Topology, source: str, destination: str, size_bytes: int) -> float:
    """Ideal completion time of one flow between named hosts, in microseconds."""
    names = [host.name for host in topology.hosts]
    src, dst = np.asarray([names.index(source)]), np.asarray([names.index(destination)])
    return float(IdealTimes(topology).of(src, dst, np.asarray([size_bytes]))[0])


def edge_ports(topology: Topology) -> list[Port]:
    """The switch port of each host, in the order of the hosts."""
    return [topology.edge_port(host.name) for host in topology.hosts]


def _cores_towards(topology: Topology, edge: Port) -> Mapping[str, _Core]:
    """For each switch: the links of one shortest path from it to the switch of this edge port."""
    distance = topology.distances_to_switch(edge.switch)
    cores = {edge.switch: _Core()}
    for name in sorted(distance, key=distance.__getitem__):
        if name not in cores:
            port = next(p for p in topology.ports_of[name] if distance.get(p.peer) == distance[name] - 1)
            cores[name] = cores[port.peer].behind(port)
    return cores
