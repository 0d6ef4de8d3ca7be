# SPDX-License-Identifier: Apache-2.0
"""Three tiers: edge and aggregation switches in pods, and core switches between them (Al-Fares et al., SIGCOMM 2008).

Each edge switch has a link to every aggregation switch of its pod. The core switches form planes: the n-th aggregation
switch of every pod has a link to each core switch of plane n. Edge switches have the first numbers, core switches the
last.

A k-ary fat tree has k pods, and k / 2 of everything else. More hosts at an edge switch oversubscribe it, and fewer core
switches in a plane oversubscribe the core.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sluice.policy.network.graph import Links, Port, Switch, Topology, host, switch
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Whole
from sluice.topologies.wiring import core_link, host_link

KIND = "fat-tree"


@dataclass(frozen=True, kw_only=True)
class Parameters(Links):
    pods: int = entry(Whole(1, 64), "Groups of edge and aggregation switches.", default=4)
    edges_per_pod: int = entry(Whole(1, 32), "Edge switches of each pod.", default=2)
    aggregations_per_pod: int = entry(Whole(1, 32), "Aggregation switches of each pod.", default=2)
    cores_per_plane: int = entry(
        Whole(1, 32), "Core switches to which each aggregation switch has a link.", default=2
    )
    hosts_per_edge: int = entry(Whole(1, 64), "Hosts at each edge switch.", default=2)


def build(values: Parameters) -> Topology:
    count = values.pods * values.edges_per_pod * values.hosts_per_edge
    hosts = tuple(host(i) for i in range(1, count + 1))
    in_pods = values.pods * (values.edges_per_pod + values.aggregations_per_pod)
    in_core = values.aggregations_per_pod * values.cores_per_plane
    switches = tuple(switch(i) for i in range(1, in_pods + in_core + 1))
    ports = (*_edge_ports(values), *_pod_links(values), *_core_links(values))
    return Topology(KIND, hosts, switches, ports, asdict(values))


def _edge_ports(values: Parameters) -> Iterator[Port]:
    per_edge = values.hosts_per_edge
    for edge in range(values.pods * values.edges_per_pod):
        for number in range(1, per_edge + 1):
            yield host_link(switch(edge + 1), number, host(edge * per_edge + number), values)


def _pod_links(values: Parameters) -> Iterator[Port]:
    """Edge switch: uplinks after its hosts. Aggregation switch: downlinks first."""
    for pod in range(values.pods):
        for edge in range(values.edges_per_pod):
            for plane in range(values.aggregations_per_pod):
                low = switch(pod * values.edges_per_pod + edge + 1)
                yield from core_link(
                    low, values.hosts_per_edge + plane + 1, _aggregation(values, pod, plane), edge + 1, values
                )


def _core_links(values: Parameters) -> Iterator[Port]:
    """Core switch: pod i at port i."""
    first = values.pods * (values.edges_per_pod + values.aggregations_per_pod) + 1
    for pod in range(values.pods):
        for plane in range(values.aggregations_per_pod):
            for n in range(values.cores_per_plane):
                high = switch(first + plane * values.cores_per_plane + n)
                number = values.edges_per_pod + n + 1
                yield from core_link(_aggregation(values, pod, plane), number, high, pod + 1, values)


def _aggregation(values: Parameters, pod: int, plane: int) -> Switch:
    return switch(values.pods * values.edges_per_pod + pod * values.aggregations_per_pod + plane + 1)
