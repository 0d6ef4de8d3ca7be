# SPDX-License-Identifier: Apache-2.0
"""Networks small enough to compute by hand."""

import numpy as np

from sluice.policy.figures.metrics import IdealTimes
from sluice.policy.network.graph import Port, Topology, host, switch
from sluice.topologies import build

RATE_BPS = 100_000_000


def ideal_fct_us(topology: Topology, source: str, destination: str, size_bytes: int) -> float:
    """Ideal completion time of one flow between named hosts, in microseconds."""
    names = [host.name for host in topology.hosts]
    src, dst = np.asarray([names.index(source)]), np.asarray([names.index(destination)])
    return float(IdealTimes(topology).of(src, dst, np.asarray([size_bytes]))[0])


FABRIC_BPS = 10_000_000


def single(hosts: int = 3, rate_bps: int = FABRIC_BPS) -> Topology:
    """One switch, host h<i> on port i."""
    names = range(1, hosts + 1)
    ports = tuple(Port("s1", i, f"h{i}", 0, rate_bps, edge=True) for i in names)
    return Topology("single", tuple(map(host, names)), (switch(1),), ports)


def star(hosts: int = 4) -> Topology:
    return single(hosts, RATE_BPS)


def leaf_spine(leaves: int = 2, spines: int = 2, hosts_per_leaf: int = 2) -> Topology:
    """Leaves s1 …, then spines; a leaf's ports are its hosts', then one to each spine."""
    size = {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf}
    return build("leaf-spine", **size, host_rate_bps=FABRIC_BPS, core_rate_bps=FABRIC_BPS)
