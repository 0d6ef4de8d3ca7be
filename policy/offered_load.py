# SPDX-License-Identifier: Apache-2.0
"""What a workload with a `load` offers to every link on average, and the check that each carries what it is offered.

Above that queues grow for as long as the run lasts, and its figures say how long it was. `interarrival`, explicit
flows, traces and background may overload links for a while: that is what they are for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from policy.arrivals import arrival_rate_per_s
from policy.columns import Array
from policy.errors import FieldError
from policy.graph import Topology
from policy.ideal import edge_ports
from policy.sizes import Mix, SizeCdf, mean_wire_bytes
from policy.workload import Workload


def check_offered(workload: Workload, topology: Topology) -> None:
    """FieldError when a load is more than some link of the topology carries."""
    if workload.load is None:
        return
    for sizes in (workload.sizes, workload.shifted):
        if sizes is None:
            continue
        loads = offered_loads(workload, topology, sizes)
        link = max(loads, key=loads.__getitem__)
        if loads[link] >= 1:
            raise FieldError(
                "workload.load",
                f"{workload.load:g} offers {link} {loads[link]:.3g} times what it carries: give at most "
                f"{0.99 * workload.load / loads[link]:.3g}, more senders, a faster core, or interarrival for a burst",
            )


def offered_loads(workload: Workload, topology: Topology, sizes: SizeCdf | Mix) -> dict[str, float]:
    """Share of its rate that each link is offered on average, by name ("h3's uplink", "s1:2")."""
    bps = 8 * traffic_matrix(workload, topology, sizes) * arrival_rate_per_s(workload, topology, sizes)
    edge = edge_ports(topology)
    loads = {f"{port.peer}'s uplink": float(bps[i].sum()) / port.rate_bps for i, port in enumerate(edge)}
    loads |= {port.id: float(bps[:, i].sum()) / port.rate_bps for i, port in enumerate(edge)}
    return loads | _core_loads(topology, bps)


def traffic_matrix(workload: Workload, topology: Topology, sizes: SizeCdf | Mix) -> Array:
    """Mean wire bytes of one start (of incast: of one request), by sender and receiver; over all permutations."""
    index = {host.name: i for i, host in enumerate(topology.hosts)}
    everybody = list(index.values())
    matrix = np.zeros((len(index), len(index)))
    for names, mean_bytes in zip(sizes.sources, mean_wire_bytes(sizes, workload.scale), strict=True):
        sources = [index[name] for name in names] or everybody
        sinks = everybody if workload.to is None else [index[workload.to]]
        share = np.zeros_like(matrix)
        share[np.ix_(sources, sinks)] = 1
        np.fill_diagonal(share, 0)
        matrix += mean_bytes * workload.fanin * share / share.sum()
    return matrix


def _core_loads(topology: Topology, bps: Array) -> dict[str, float]:
    """Of the links between switches; equal-cost links share alike."""
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
    """Add what flows from all switches towards one, the farthest first."""
    for name in sorted(distance, key=distance.__getitem__, reverse=True):
        nearer = [p for p in topology.ports_of[name] if distance.get(p.peer) == distance[name] - 1]
        for port in nearer:
            part_bps = demand_bps.get(name, 0.0) / len(nearer)
            loads[port.id] += part_bps / port.rate_bps
            demand_bps[port.peer] = demand_bps.get(port.peer, 0.0) + part_bps
