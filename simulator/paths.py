# SPDX-License-Identifier: Apache-2.0
"""The links of a network, and the ports by which packets go on from each.

Links have the numbers of their ports on the fabric: first the hosts' own ones, then those of switches, both in the
order of the topology.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sluice.policy.network.graph import Port, Topology


@dataclass(frozen=True)
class Paths:
    topology: Topology

    @cached_property
    def link_of(self) -> dict[str, int]:
        """Port id → number."""
        return {port.id: len(self.topology.hosts) + i for i, port in enumerate(self.topology.ports)}

    @cached_property
    def host_of(self) -> dict[str, int]:
        return {host.name: i for i, host in enumerate(self.topology.hosts)}

    @cached_property
    def links(self) -> list[Port]:
        """By number. A host's own link is the one at its switch's port."""
        edge = {port.peer: port for port in self.topology.ports if port.edge}
        return [edge[host.name] for host in self.topology.hosts] + list(self.topology.ports)

    @cached_property
    def next_hops(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Edge switch → switch → the equal-cost links towards the hosts of the edge switch."""
        edges = dict.fromkeys(port.switch for port in self.topology.ports if port.edge)
        return {edge: self._next_hops(edge) for edge in edges}

    def _next_hops(self, edge: str) -> dict[str, tuple[int, ...]]:
        distance = self.topology.distances_to_switch(edge)
        return {
            switch: tuple(
                self.link_of[port.id]
                for port in self.topology.ports_of[switch]
                if (port.edge if switch == edge else _leads_on(port, distance))
            )
            for switch in distance
        }

    @cached_property
    def onward(self) -> list[set[int]]:
        """By the number of a link: the links by which its packets go on. None behind a link to a host."""
        found: list[set[int]] = [set() for _ in self.links]
        of_hosts: dict[str, set[int]] = {}
        for towards in self.next_hops.values():
            for switch, numbers in towards.items():
                of_hosts.setdefault(switch, set()).update(numbers)
                for number in numbers:
                    if not self.links[number].edge:
                        found[number].update(towards[self.links[number].peer])
        for host in range(len(self.topology.hosts)):
            found[host] = of_hosts[self.links[host].switch]
        return found


def _leads_on(port: Port, distance: Mapping[str, int]) -> bool:
    nowhere = len(distance) + 1
    return port.up and not port.edge and distance.get(port.peer, nowhere) == distance[port.switch] - 1
