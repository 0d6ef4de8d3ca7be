# SPDX-License-Identifier: Apache-2.0
"""The network as a graph: hosts, switches, the switches' ports, and the equal-cost next hops between them.

These are pure data. `topologies/` builds a graph from one class for each topology, and realises it with Mininet and
Open vSwitch. The controller routes over the graph, the simulator builds its fabric from it, the dashboard draws it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Host:
    """An end host with one interface, `<name>-eth0`."""

    name: str
    mac: str
    ipv4: str
    ipv6: str

    @property
    def interface(self) -> str:
        return f"{self.name}-eth0"


@dataclass(frozen=True)
class Switch:
    name: str
    dpid: int
    """OpenFlow datapath id."""


@dataclass(frozen=True)
class Port:
    """One port of a switch. Its link has the same rate in both directions."""

    switch: str
    number: int
    """OpenFlow port number, from 1."""
    peer: str
    """Name of the host or switch at the other end."""
    peer_port: int
    """Port number at the other switch; 0 if the peer is a host."""
    rate_bps: int
    delay_ns: int = 0
    edge: bool = False
    """The peer is a host."""

    @property
    def interface(self) -> str:
        return f"{self.switch}-eth{self.number}"

    @property
    def id(self) -> str:
        """The name of the port in the API and the store: "s1:2"."""
        return f"{self.switch}:{self.number}"


@dataclass(frozen=True)
class Topology:
    """A whole network. Node names are unique; every link between switches appears as two ports."""

    kind: str
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    ports: tuple[Port, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def host_by_name(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def switch_by_name(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def port_by_id(self) -> dict[str, Port]:
        return {port.id: port for port in self.ports}

    @cached_property
    def ports_of(self) -> dict[str, tuple[Port, ...]]:
        """The ports of each switch, by number."""
        grouped: dict[str, list[Port]] = {switch.name: [] for switch in self.switches}
        for port in self.ports:
            grouped[port.switch].append(port)
        return {name: tuple(sorted(ports, key=lambda p: p.number)) for name, ports in grouped.items()}

    @cached_property
    def _edge_port_of(self) -> dict[str, Port]:
        return {port.peer: port for port in self.ports if port.edge}

    def edge_port(self, host_name: str) -> Port:
        """The switch port of a host."""
        return self._edge_port_of[host_name]

    def distances_to(self, host_name: str) -> dict[str, int]:
        """Hops from each switch to a host; 1 from its edge switch."""
        return self._distances[self.edge_port(host_name).switch]

    @cached_property
    def _distances(self) -> dict[str, dict[str, int]]:
        """Hops from each switch to the hosts of each edge switch."""
        return {
            edge: self._distances_from(edge) for edge in {port.switch for port in self.ports if port.edge}
        }

    def _distances_from(self, edge: str) -> dict[str, int]:
        distance = {edge: 1}
        queue = deque([edge])
        while queue:
            here = queue.popleft()
            for port in self.ports_of[here]:
                if not port.edge and port.peer not in distance:
                    distance[port.peer] = distance[here] + 1
                    queue.append(port.peer)
        return distance

    def next_ports(self, switch_name: str, host_name: str) -> tuple[Port, ...]:
        """The equal-cost egress ports from a switch towards a host, by port number."""
        edge = self.edge_port(host_name)
        if switch_name == edge.switch:
            return (edge,)
        distance = self.distances_to(host_name)
        here = distance[switch_name]
        return tuple(
            port
            for port in self.ports_of[switch_name]
            if not port.edge and distance.get(port.peer, here) == here - 1
        )

    def one_path(self, source: str, destination: str) -> tuple[Port, ...]:
        """The egress ports that a packet crosses on one shortest path from host to host."""
        path = []
        at = self.edge_port(source).switch
        while True:
            port = self.next_ports(at, destination)[0]
            path.append(port)
            if port.edge:
                return tuple(path)
            at = port.peer

    def spanning_tree_ports(self) -> dict[str, tuple[int, ...]]:
        """Port numbers of each switch on one spanning tree, with all host ports. Broadcast uses only these ports."""
        root = self.switches[0].name
        on_tree: dict[str, set[int]] = {switch.name: set() for switch in self.switches}
        seen, queue = {root}, deque([root])
        while queue:
            here = queue.popleft()
            for port in self.ports_of[here]:
                if port.edge:
                    on_tree[here].add(port.number)
                elif port.peer not in seen:
                    seen.add(port.peer)
                    queue.append(port.peer)
                    on_tree[here].add(port.number)
                    on_tree[port.peer].add(port.peer_port)
        return {name: tuple(sorted(numbers)) for name, numbers in on_tree.items()}

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "hosts": [asdict(host) for host in self.hosts],
            "switches": [asdict(switch) for switch in self.switches],
            "ports": [asdict(port) for port in self.ports],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Topology:
        return cls(
            kind=document["kind"],
            parameters=document["parameters"],
            hosts=tuple(Host(**host) for host in document["hosts"]),
            switches=tuple(Switch(**switch) for switch in document["switches"]),
            ports=tuple(Port(**port) for port in document["ports"]),
        )


def host(index: int) -> Host:
    """Host h<index>, with index from 1. Its addresses follow from the index (10.0.0.0/16 and fd00::/64)."""
    high, low = divmod(index, 256)
    return Host(
        name=f"h{index}",
        mac=f"02:00:00:00:{high:02x}:{low:02x}",
        ipv4=f"10.0.{high}.{low}",
        ipv6=f"fd00::{index:x}",
    )


def switch(index: int) -> Switch:
    """Switch s<index> with datapath id <index>, with index from 1."""
    return Switch(name=f"s{index}", dpid=index)
