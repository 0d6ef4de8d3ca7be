# SPDX-License-Identifier: Apache-2.0
"""Networks small enough to compute by hand."""

import numpy as np

from sluice.policy.figures.metrics import IdealTimes
from sluice.policy.network.graph import Port, Topology, host, switch

RATE_BPS = 100_000_000


def ideal_fct_us(topology: Topology, source: str, destination: str, size_bytes: int) -> float:
    """Ideal completion time of one flow between named hosts, in microseconds."""
    names = [host.name for host in topology.hosts]
    src, dst = np.asarray([names.index(source)]), np.asarray([names.index(destination)])
    return float(IdealTimes(topology).of(src, dst, np.asarray([size_bytes]))[0])


FABRIC_BPS = 10_000_000


def _edge(at: str, number: int, name: str, rate_bps: int = FABRIC_BPS) -> Port:
    return Port(at, number, name, 0, rate_bps, edge=True)


def single(hosts: int = 3, rate_bps: int = FABRIC_BPS) -> Topology:
    """One switch, host h<i> on port i."""
    names = range(1, hosts + 1)
    ports = tuple(_edge("s1", i, f"h{i}", rate_bps) for i in names)
    return Topology("single", tuple(map(host, names)), (switch(1),), ports)


def star(hosts: int = 4) -> Topology:
    return single(hosts, RATE_BPS)


def leaf_spine(leaves: int = 2, spines: int = 2, hosts_per_leaf: int = 2) -> Topology:
    """Leaves s1 …, then spines; a leaf's ports are its hosts', then one to each spine."""
    ports: list[Port] = []
    for leaf in range(1, leaves + 1):
        for i in range(1, hosts_per_leaf + 1):
            ports.append(_edge(f"s{leaf}", i, f"h{(leaf - 1) * hosts_per_leaf + i}"))
        for j in range(1, spines + 1):
            spine, uplink = f"s{leaves + j}", hosts_per_leaf + j
            ports.append(Port(f"s{leaf}", uplink, spine, leaf, FABRIC_BPS))
            ports.append(Port(spine, leaf, f"s{leaf}", uplink, FABRIC_BPS))
    hosts = tuple(host(i) for i in range(1, leaves * hosts_per_leaf + 1))
    switches = tuple(switch(i) for i in range(1, leaves + spines + 1))
    return Topology("leaf-spine", hosts, switches, tuple(ports))
