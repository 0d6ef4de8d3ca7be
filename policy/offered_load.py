# SPDX-License-Identifier: Apache-2.0
"""The mean load that a workload with `load` offers to every link, and the check that no link is overloaded.

On an overloaded link, queues grow during the whole run, so the figures depend on the length of the run.
`interarrival`, explicit flows, traces and background flows are not checked, because they may overload links on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sluice.policy.arrivals import arrival_rate_per_s
from sluice.policy.columns import Array
from sluice.policy.errors import FieldError
from sluice.policy.graph import Topology
from sluice.policy.ideal import edge_ports
from sluice.policy.sizes import Mix, SizeCdf, mean_wire_bytes
from sluice.policy.workload import Workload


def check_offered_load(workload: Workload, topology: Topology) -> None:
    """Raise FieldError if the workload's load exceeds the rate of some link of the topology."""
    if workload.load is None:
        return
    for sizes in workload.all_sizes:
        loads = offered_loads(workload, topology, sizes)
        link = max(loads, key=loads.__getitem__)
        if loads[link] >= 1:
            raise FieldError(
                "workload.load",
                f"{workload.load:g} offers {link} {loads[link]:.3g} times its rate: give at most "
                f"{0.99 * workload.load / loads[link]:.3g}, more senders, a faster core, or interarrival for a burst",
            )


def offered_loads(workload: Workload, topology: Topology, sizes: SizeCdf | Mix) -> dict[str, float]:
    """Mean offered load of each link as a share of its rate, by the link's name ("h3's uplink", "s1:2")."""
    bps = 8 * traffic_matrix(workload, topology, sizes) * arrival_rate_per_s(workload, topology, sizes)
    edge = edge_ports(topology)
    loads = {f"{port.peer}'s uplink": float(bps[i].sum()) / port.rate_bps for i, port in enumerate(edge)}
    loads |= {port.id: float(bps[:, i].sum()) / port.rate_bps for i, port in enumerate(edge)}
    return loads | _core_loads(topology, bps)


def traffic_matrix(workload: Workload, topology: Topology, sizes: SizeCdf | Mix) -> Array:
    """Mean wire bytes of one start, by sender and receiver; for an incast, of one request.

    For the pattern "permutation", it is the mean over all permutations.
    """
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    all_hosts = list(index.values())
    matrix = np.zeros((len(index), len(index)))
    for names, mean_bytes in zip(sizes.sources, mean_wire_bytes(sizes, workload.scale), strict=True):
        sources = [index[name] for name in names] or all_hosts
        sinks = all_hosts if workload.to is None else [index[workload.to]]
        share = np.zeros_like(matrix)
        share[np.ix_(sources, sinks)] = 1
        np.fill_diagonal(share, 0)
        matrix += mean_bytes * workload.fanin * share / share.sum()
    return matrix


def _core_loads(topology: Topology, bps: Array) -> dict[str, float]:
    """Loads of the links between switches. Equal-cost links have equal parts of the traffic."""
    edge = edge_ports(topology)
    switches = list(dict.fromkeys(port.switch for port in edge))
    of_host = np.asarray([switches.index(port.switch) for port in edge])
    between = np.zeros((len(switches), len(switches)))
    np.add.at(between, (of_host[:, None], of_host[None, :]), bps)
    loads = {port.id: 0.0 for port in topology.ports if not port.edge}
    for column, name in enumerate(switches):
        host = next(port.peer for port in edge if port.switch == name)
        _spread(
            topology, topology.distances_to(host), dict(zip(switches, between[:, column], strict=True)), loads
        )
    return loads


def _spread(
    topology: Topology, distance: Mapping[str, int], demand_bps: dict[str, float], loads: dict[str, float]
) -> None:
    """Add the traffic from all switches towards one switch to `loads`, the farthest switch first."""
    for name in sorted(distance, key=distance.__getitem__, reverse=True):
        nearer = [p for p in topology.ports_of[name] if distance.get(p.peer) == distance[name] - 1]
        for port in nearer:
            part_bps = demand_bps.get(name, 0.0) / len(nearer)
            loads[port.id] += part_bps / port.rate_bps
            demand_bps[port.peer] = demand_bps.get(port.peer, 0.0) + part_bps
