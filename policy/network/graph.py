# SPDX-License-Identifier: Apache-2.0
"""The network as a graph: hosts, switches, the switches' ports, and the equal-cost next hops between them.

These are pure data. `topologies/` builds a graph from one class for each topology, and realises it with Mininet and
Open vSwitch. The controller routes over the graph, the simulator builds its fabric from it, the dashboard draws it.

The keys of [fabric] that every topology has: rates, delays and failures of links.

Groups of a switch's ports by which packets enter. A port counts the ends of flows by group, not by ingress port.

So the counters grow with ports x tags, whatever the number of ports. Ports to other switches are one group, because
each of them carries many hosts. The ports of hosts take the other groups in turn, so a host is in one group alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from sluice.policy.network.vlans import Vlans
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Duration, ListOf, Rate, Text
from sluice.policy.units import NS_PER_S


class Unknown(StrEnum):
    """What a switch does with a packet to an address that no switch has seen."""

    FLOOD = "flood"
    """Send it to all ports of a spanning tree."""
    NORMAL = "normal"
    """Forward it by the switch's own table of addresses."""
    DROP = "drop"
    """Drop and count it."""


@dataclass(frozen=True)
class Host:
    """An end host with one interface."""

    name: str
    mac: str
    ipv4: str
    """Empty if unknown, as for a host that a switch has learned."""
    ipv6: str
    """Empty if unknown."""
    port: str = ""
    """Id of the switch port behind which the host is. Empty if that port's `peer` names the host."""
    vlan: int = 0
    """The VLAN in which the host is, in a network whose ports name VLANs."""

    @property
    def interface(self) -> str:
        """Name of the interface of an emulated host."""
        return f"{self.name}-eth0"


@dataclass(frozen=True)
class Switch:
    name: str
    dpid: int
    """OpenFlow datapath id."""
    priority_tags: bool = True
    """Rules name the queue in an 802.1p tag, too. Open vSwitch's userspace datapath needs that."""
    first_table: int = 0
    """The first OpenFlow table of Sluice. With 0, the switch belongs to Sluice, and other rules are removed."""
    forwards: bool = True
    """Sluice's rules forward. Otherwise the switch, bridge or router forwards by itself, without a controller …"""
    agent: str = ""
    """… and this port agent gives its ports the queues. Empty: the one of the same name."""

    @property
    def port_agent(self) -> str | None:
        """The port agent of a switch that forwards by itself. None if rules of Sluice forward."""
        return None if self.forwards else self.agent or self.name


@dataclass(frozen=True)
class Port:
    """One port of a switch. Its link has the same rate in both directions."""

    switch: str
    number: int
    """OpenFlow port number, from 1."""
    peer: str
    """Name of the host or switch at the other end. If a switch learns which hosts are there, a name of the port."""
    peer_port: int
    """Port number at the other switch; 0 if the port is an edge port."""
    rate_bps: int
    delay_ns: int = 0
    edge: bool = False
    """The port leads to hosts and not to a switch of the network."""
    name: str = ""
    """Name of the interface; empty if it follows from the number, as in an emulated network."""
    up: bool = True
    """The link works in both directions. Paths avoid links that are down."""
    uplink: bool = False
    """The port leads out of the network: the tags that arrive there mean nothing."""
    managed: bool = True
    """Sluice may give the port queues. False: the switches forward its packets, and nothing else changes there."""
    vlans: Vlans | None = None
    """None if neither the operator nor the switch names any."""
    bond: str = ""
    """Name of the bond that joins an edge port with others of its switch; empty if there is none."""

    @property
    def interface(self) -> str:
        """Name of the port's interface on its machine."""
        return self.name or f"{self.switch}-eth{self.number}"

    @property
    def id(self) -> str:
        """The name of the port in the API and the store: "s1:2"."""
        return f"{self.switch}:{self.number}"

    @property
    def carried(self) -> Vlans:
        """The VLANs that the port carries in a network whose ports name VLANs."""
        return self.vlans or Vlans()


@dataclass(frozen=True)
class Topology:
    """A whole network. Node names are unique; every link between switches appears as two ports."""

    kind: str
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    ports: tuple[Port, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    unknown: str = Unknown.DROP
    """What switches do with packets to an unknown address."""
    learns: bool = False
    """The network exists already: switches report its links and the hosts behind their ports."""

    def has_ports_of(self, other: Topology) -> bool:
        """Return whether two networks differ at most in their hosts and in which links are up."""

        def fixed(network: Topology) -> object:
            ports = tuple(
                replace(port, up=True, peer="" if port.edge else port.peer) for port in network.ports
            )
            return network.switches, ports, network.unknown, network.learns

        return fixed(self) == fixed(other)

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
    def vlans(self) -> tuple[int, ...]:
        """The VLANs that ports name at which rules of Sluice forward, and 0. Empty if no port names any."""
        named = [p.carried.named for p in self.ports if p.vlans and self.switch_by_name[p.switch].forwards]
        return tuple(sorted({0}.union(*named))) if named else ()

    def members(self, port: Port) -> tuple[Port, ...]:
        """The ports of the bond of a port, by number, or the port alone."""
        if not (port.bond and port.edge):
            return (port,)
        return tuple(other for other in self.ports_of[port.switch] if other.edge and other.bond == port.bond)

    @cached_property
    def _edge_port_of(self) -> dict[str, Port]:
        named = {port.peer: port for port in self.ports if port.edge}
        return named | {host.name: self.port_by_id[host.port] for host in self.hosts if host.port}

    def edge_port(self, host_name: str) -> Port:
        """The switch port of a host."""
        return self._edge_port_of[host_name]

    def distances_to_switch(self, edge: str) -> dict[str, int]:
        """Hops from each switch to the hosts of an edge switch; 1 from itself."""
        return self._distances[edge]

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
                if port.up and not port.edge and port.peer not in distance:
                    distance[port.peer] = distance[here] + 1
                    queue.append(port.peer)
        return distance

    def next_ports(self, switch_name: str, host_name: str) -> tuple[Port, ...]:
        """The equal-cost egress ports from a switch towards a host, by port number; none if there is no path."""
        edge = self.edge_port(host_name)
        if switch_name == edge.switch:
            return self.members(edge)
        distance = self.distances_to_switch(edge.switch)
        here = distance.get(switch_name, 0)
        return tuple(
            port
            for port in self.ports_of[switch_name]
            if port.up and not port.edge and distance.get(port.peer, here) == here - 1
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

    @property
    def has_loop(self) -> bool:
        """Whether links that are up form a loop."""
        links = sum(port.up and not port.edge for port in self.ports) / 2
        return links > sum(1 for _ in self._tree())

    def spanning_tree_ports(self) -> dict[str, tuple[int, ...]]:
        """Port numbers of each switch on one spanning tree of each connected part, with all edge ports.

        Broadcast uses only these ports.
        """
        on_tree = {
            switch.name: {port.number for port in self.ports_of[switch.name] if port.edge}
            for switch in self.switches
        }
        for port in self._tree():
            on_tree[port.switch].add(port.number)
            on_tree[port.peer].add(port.peer_port)
        return {name: tuple(sorted(numbers)) for name, numbers in on_tree.items()}

    def _tree(self) -> Iterator[Port]:
        """Yield the ports by which breadth-first searches, one in each connected part, find the switches."""
        seen: set[str] = set()
        for switch in self.switches:
            queue = deque([switch.name] if switch.name not in seen else [])
            seen.add(switch.name)
            while queue:
                for port in self.ports_of[queue.popleft()]:
                    if port.up and not port.edge and port.peer not in seen:
                        seen.add(port.peer)
                        queue.append(port.peer)
                        yield port

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "hosts": [asdict(host) for host in self.hosts],
            "switches": [asdict(switch) for switch in self.switches],
            "ports": [asdict(port) for port in self.ports],
            "unknown": str(self.unknown),
            "learns": self.learns,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Topology:
        return cls(
            kind=document["kind"],
            parameters=document["parameters"],
            hosts=tuple(Host(**_known_fields(Host, host)) for host in document["hosts"]),
            switches=tuple(Switch(**_known_fields(Switch, switch)) for switch in document["switches"]),
            ports=tuple(_read_port(port) for port in document["ports"]),
            unknown=document.get("unknown", Unknown.DROP),
            learns=document.get("learns", False),
        )


def _read_port(document: Mapping[str, Any]) -> Port:
    port = Port(**_known_fields(Port, document))
    if (vlans := document.get("vlans")) is None:
        return port
    return replace(port, vlans=Vlans(vlans["mode"], vlans["native"], tuple(vlans["trunks"])))


def _known_fields(node: type[Host | Switch | Port], document: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only a later version writes. During an upgrade, two versions use one store."""
    names = {attribute.name for attribute in fields(node)}
    return {key: value for key, value in document.items() if key in names}


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


RATE = Rate(10**6, 800 * 10**9)
DELAY = Duration(0, NS_PER_S)


@dataclass(frozen=True, kw_only=True)
class Links:
    """Rates, delays and failures. The delay of a host's link is link delay plus host delay."""

    host_rate_bps: int = entry(RATE, "Rate of the links to hosts.", key="host_rate", default=100 * 10**6)
    core_rate_bps: int = entry(
        RATE, "Rate of the links between switches.", key="core_rate", default=100 * 10**6
    )
    link_delay_ns: int = entry(DELAY, "Propagation delay of each link.", key="link_delay", default=0)
    host_delay_ns: int = entry(
        DELAY,
        "Delay of a host's link in addition to link_delay.",
        key="host_delay",
        default=0,
    )
    down: tuple[str, ...] = entry(
        ListOf(Text(longest=64), longest=1000),
        'Links between switches that are down, each with the names of its ends, for example ["s1-s5"].',
        default=(),
    )


TRUNKS = 0
"""The group of ports to other switches."""
HOST_GROUPS = 5
INGRESS_GROUPS = 1 + HOST_GROUPS


def ingress_groups(ports: Iterable[Port]) -> dict[int, int]:
    """Return port number → group, for the ports of one switch. Uplinks to others' networks count as trunks."""
    groups, hosts = {}, 0
    for port in sorted(ports, key=lambda port: port.number):
        of_host = port.edge and not port.uplink
        groups[port.number] = 1 + hosts % HOST_GROUPS if of_host else TRUNKS
        hosts += of_host
    return groups
