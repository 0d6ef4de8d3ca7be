# SPDX-License-Identifier: Apache-2.0
"""From a description and the sightings of the switches to the graph that Sluice forwards over.

`realise` is pure. What no switch has is left out, and what no one described is forwarded to, but not managed. So a
contradiction between the two becomes a finding, and packets that reached their host before still do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sluice.policy.network.description import (
    OWN_PORT,
    DeclaredHost,
    DeclaredPort,
    DeclaredSwitch,
    HostNames,
    Network,
    PortAt,
    SeenHost,
    SeenPort,
    Sightings,
)
from sluice.policy.network.graph import Host, Port, Switch, Topology, Unknown
from sluice.policy.units import format_rate

DEFAULT_RATE_BPS = 10_000_000_000
"""Of a port whose rate neither the description nor its switch names."""


class Finding(NamedTuple):
    """A difference between the description and the switches."""

    kind: str
    where: str
    """The switch, port or host, as the description names it."""
    problem: str
    is_error: bool = True
    """The description is wrong, or a link does not work. Otherwise a note."""

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(frozen=True)
class Realisation:
    """The graph, and what differs from the description."""

    topology: Topology
    findings: tuple[Finding, ...]


def realise(network: Network, seen: Sightings) -> Realisation:
    """Return the graph of a described network."""
    return _Realiser(network, seen).realisation()


class _Realiser:
    def __init__(self, network: Network, seen: Sightings) -> None:
        left = {switch.dpid: switch.as_seen() for switch in network.switch if not switch.forwards}
        seen = replace(seen, switches={**seen.switches, **left})
        self._network, self._seen = network, seen
        self._findings: list[Finding] = []
        self._declared = {switch.dpid: switch for switch in network.switch}
        self._at: dict[str, PortAt] = {}
        """Declared port ("rack1:eth1") → where it is."""
        self._seen_ports: dict[PortAt, SeenPort] = {}
        self._host_names = HostNames(network, seen)
        self._locate()
        self._name_at = {at: name for name, at in self._at.items()}

    def realisation(self) -> Realisation:
        self._find_strangers()
        ports = (*self._ports(), *self._undescribed_ports())
        hosts = tuple(self._hosts({port.id: port for port in ports}))
        for name, problem in self._host_names.problems():
            self._note("agent-name", name, problem)
        switches = tuple(
            Switch(
                s.name,
                s.dpid,
                s.forwards and s.datapath == "userspace",
                s.first_table,
                s.forwards,
                s.agent or "",
            )
            for s in self._network.switch
        )
        topology = Topology(
            self._network.name, hosts, switches, ports, unknown=self._network.unknown, learns=True
        )
        layered = bool(topology.vlans) or any(port.bond for port in ports)
        if topology.unknown == Unknown.NORMAL and (topology.has_loop or layered):
            # The switches' own forwarding would send a packet round the loop, and does not read what rules have pushed.
            others = "loops, but its links form one" if topology.has_loop else "VLANs and bonds, but has some"
            self._note(
                "loop" if topology.has_loop else "vlans",
                self._network.name,
                f'unknown = "normal" is only for a network without {others}. Sluice floods on a'
                ' spanning tree instead; write unknown = "flood"',
            )
            topology = replace(topology, unknown=str(Unknown.FLOOD))
        return Realisation(topology, tuple(self._findings))

    def _note(self, kind: str, where: str, problem: str, *, is_error: bool = True) -> None:
        self._findings.append(Finding(kind, where, problem, is_error))

    # ── Ports ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _locate(self) -> None:
        """Find each declared port at its switch."""
        for switch in self._network.switch:
            seen = self._seen.switches.get(switch.dpid)
            if switch.dpid in self._seen.duplicates:
                self._note(
                    "duplicate-datapath-id",
                    switch.name,
                    f"two switches have the datapath id {switch.dpid:016x}. Sluice refuses the one at"
                    f" {self._seen.duplicates[switch.dpid]}; give one of them another id: ovs-vsctl set bridge"
                    " BRIDGE other_config:datapath-id=…",
                )
            if seen is None:
                self._note("switch-missing", switch.name, f"no switch has connected with {switch.dpid:016x}")
                continue
            for port in switch.port:
                seen_port = seen.port_named(port.name)
                if seen_port is None:
                    there = ", ".join(sorted(p.name for p in seen.ports)) or "none"
                    self._note(
                        "port-missing",
                        f"{switch.name}:{port.name}",
                        f"the switch has no port of this name; its ports: {there}",
                    )
                    continue
                self._at[f"{switch.name}:{port.name}"] = (switch.dpid, seen_port.number)
                self._seen_ports[switch.dpid, seen_port.number] = seen_port

    def _ports(self) -> Iterator[Port]:
        for _, switch, port in self._network.ports():
            at = self._at.get(f"{switch.name}:{port.name}")
            if at is None:
                continue
            graph_port = self._link(switch, port, at) if port.to else self._edge(switch, port, at)
            if graph_port is not None:
                yield graph_port

    def _edge(self, switch: DeclaredSwitch, port: DeclaredPort, at: PortAt) -> Port | None:
        seen_port, where = self._seen_ports[at], f"{switch.name}:{port.name}"
        if at in self._seen.links:
            return self._undescribed_link(where, switch, port, at)
        if not seen_port.up and port.uplink:
            self._note(
                "uplink-down", where, "the uplink is down; check its cable and the port at the other end"
            )
        elif not seen_port.up and port.host:
            self._note("port-down", where, f"the link to {port.host} is down", is_error=False)
        peer = self._host_names.shown(port.host) if port.host else where
        managed = seen_port.number != OWN_PORT
        edge = self._port(switch, port, seen_port, peer, managed=managed)
        return replace(edge, edge=True, uplink=port.uplink)

    def _port(
        self,
        switch: DeclaredSwitch,
        port: DeclaredPort,
        seen: SeenPort,
        peer: str,
        peer_port: int = 0,
        *,
        managed: bool = True,
    ) -> Port:
        """Return the port of a link between two switches, as long as no one changes it."""
        rate_bps = self._rate(switch, port, seen)
        held = self._seen.columns.get(f"{switch.name}:{port.name}", port)
        if port.vlans and held.vlans and port.vlans != held.vlans:
            self._note(
                "vlans",
                f"{switch.name}:{port.name}",
                "the description and Open vSwitch name different VLANs. Sluice forwards by the description; correct"
                " one of them",
            )
        graph_port = Port(
            switch.name, seen.number, peer, peer_port, rate_bps, name=port.name, up=seen.up, managed=managed
        )
        return replace(graph_port, vlans=port.vlans or held.vlans, bond=port.bond or "")

    def _undescribed_link(
        self, where: str, switch: DeclaredSwitch, port: DeclaredPort, at: PortAt, *, managed: bool = True
    ) -> Port | None:
        """Return the port of a link between two switches that the description does not name as one."""
        other = self._seen.links[at]
        if not self._is_free_link(at, other):
            self._note(
                "loop",
                where,
                f"leads to the switch port {self._shown(other)}, not to hosts. Sluice does not use the port, because"
                " packets could circle; unplug it, or describe the link with to",
            )
            return None
        self._note(
            "link-undescribed",
            where,
            f"leads to the switch port {self._shown(other)}, not to hosts. Sluice uses the link; write"
            f' to = "{self._shown(other)}", or unplug it',
        )
        far = self._declared[other[0]]
        return self._port(switch, port, self._seen_ports[at], far.name, other[1], managed=managed)

    def _is_free_link(self, at: PortAt, other: PortAt) -> bool:
        """Whether both ends see each other, belong to two switches of ours, and are described as no other link."""
        far = self._declared.get(other[0])
        if far is None or at[0] == other[0] or self._seen.links.get(other) != at:
            return False
        # Sluice forwards to a described port, and to any port of a switch that belongs to Sluice.
        is_forwarding = other in self._name_at or far.first_table == 0
        return is_forwarding and not any(
            port.to for port in far.port if self._at.get(f"{far.name}:{port.name}") == other
        )

    def _undescribed_ports(self) -> Iterator[Port]:
        """Yield the other ports of the switches that belong to Sluice: no rule of others forwards to them."""
        for switch in self._network.switch:
            seen = self._seen.switches.get(switch.dpid)
            if seen is None or switch.first_table:
                continue
            for seen_port in seen.ports:
                at, where = (switch.dpid, seen_port.number), f"{switch.name}:{seen_port.name}"
                if at in self._name_at:
                    continue
                port = DeclaredPort(seen_port.name, seen_port.rate_bps or DEFAULT_RATE_BPS)
                self._seen_ports[at] = seen_port
                if at not in self._seen.links:
                    yield replace(self._port(switch, port, seen_port, where, managed=False), edge=True)
                elif link := self._undescribed_link(where, switch, port, at, managed=False):
                    yield link

    def _link(self, switch: DeclaredSwitch, port: DeclaredPort, at: PortAt) -> Port | None:
        assert port.to is not None
        to = self._at.get(port.to)
        if to is None:
            return None
        seen_port, far_port = self._seen_ports[at], self._seen_ports[to]
        other = self._seen.links.get(at)
        where = f"{switch.name}:{port.name}"
        up = seen_port.up and far_port.up
        if not seen_port.up:
            self._note("link-down", where, f"the link to {port.to} is down")
        if other is not None and other != to:
            up = False
            self._note(
                "miswired", where, f"leads to {self._shown(other)}, but the description says {port.to}"
            )
        peer, _, _ = port.to.partition(":")
        return replace(self._port(switch, port, seen_port, peer, to[1]), up=up)

    def _rate(self, switch: DeclaredSwitch, port: DeclaredPort, seen_port: SeenPort) -> int:
        if port.rate_bps is None and not seen_port.rate_bps:
            self._note(
                "rate-unknown",
                f"{switch.name}:{port.name}",
                f"neither the description nor the port names a rate, so {format_rate(DEFAULT_RATE_BPS)} is assumed;"
                ' write rate = "…"',
                is_error=False,
            )
        if port.rate_bps is None:
            return seen_port.rate_bps or DEFAULT_RATE_BPS
        if seen_port.rate_bps and port.rate_bps > seen_port.rate_bps:
            self._note(
                "rate",
                f"{switch.name}:{port.name}",
                f"the description says {format_rate(port.rate_bps)}, but the port runs at"
                f" {format_rate(seen_port.rate_bps)}; queues would build up behind it",
            )
        return port.rate_bps

    def _shown(self, at: PortAt) -> str:
        if at in self._name_at:
            return self._name_at[at]
        switch = self._seen.switches.get(at[0])
        names = {port.number: port.name for port in switch.ports} if switch else {}
        declared = self._declared.get(at[0])
        return f"{declared.name if declared else format(at[0], '016x')}:{names.get(at[1], at[1])}"

    # ── Hosts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _hosts(self, ports: dict[str, Port]) -> Iterator[Host]:
        by_mac = {host.mac.lower(): host for host in self._network.host}
        at_port = {port.peer: port for port in ports.values() if port.edge}
        learned_of: dict[str, list[SeenHost]] = {}
        for learned in sorted(self._seen.hosts.values(), key=lambda host: host.vlan):
            port = self._edge_at(learned.at, ports)
            if port is None or port.carried.carries(learned.vlan):
                learned_of.setdefault(learned.mac, []).append(learned)
        for mac, declared in by_mac.items():
            if host := self._declared_host(mac, declared, learned_of.get(mac, ()), at_port, ports):
                yield host
        for mac, several in learned_of.items():
            names = self._host_names
            name = names.shown(by_mac[mac].name) if mac in by_mac else names.learned(mac)
            for i, learned in enumerate(several):
                port = self._edge_at(learned.at, ports)
                if port is not None and (i or mac not in by_mac):
                    # The name of an address in its first VLAN is that of its agent, and in others it names the VLAN.
                    own = f"{name}.{learned.vlan}" if i else name
                    yield Host(own, mac, learned.ipv4, learned.ipv6, port.id, learned.vlan)

    def _declared_host(
        self,
        mac: str,
        host: DeclaredHost,
        seen_there: Sequence[SeenHost],
        at_port: dict[str, Port],
        ports: dict[str, Port],
    ) -> Host | None:
        name = self._host_names.shown(host.name)
        fixed, learned = at_port.get(name), next(iter(seen_there), None)
        learned_port = self._edge_at(learned.at, ports) if learned else None
        if fixed is not None and learned_port is not None and learned_port != fixed:
            assert learned is not None
            self._note(
                "host-elsewhere",
                host.name,
                f"the description says {fixed.switch}:{fixed.name}, but its packets come from"
                f" {self._shown(learned.at)}; Sluice sends its packets there",
            )
        port = learned_port or fixed
        if port is None:
            self._note(
                "host-missing",
                host.name,
                "no port is declared for it, and no packet of it was seen",
                is_error=False,
            )
            return None
        seen = learned or SeenHost(mac, (0, 0), vlan=port.carried.native)
        return Host(name, mac, host.ipv4 or seen.ipv4, host.ipv6 or seen.ipv6, port.id, seen.vlan)

    def _edge_at(self, at: PortAt, ports: dict[str, Port]) -> Port | None:
        declared = self._declared.get(at[0])
        port = ports.get(f"{declared.name}:{at[1]}") if declared else None
        if port is None or not port.edge:
            return None
        # A host behind a bond sends by each of its ports. It is at the first one.
        place = port.switch, port.bond
        joined = (p for p in ports.values() if port.bond and p.edge and (p.switch, p.bond) == place)
        return min(joined, key=lambda p: p.number, default=port)

    # ── What no one described ──────────────────────────────────────────────────────────────────────────────────────

    def _find_strangers(self) -> None:
        for dpid, switch in self._seen.switches.items():
            declared = self._declared.get(dpid)
            if declared is None:
                self._note(
                    "switch-unknown",
                    f"{dpid:016x}",
                    f'a switch ("{switch.name}") is connected that the description lacks; Sluice leaves it alone',
                    is_error=False,
                )
                continue
            described = {port.name for port in declared.port}
            does = "leaves it alone" if declared.first_table else "forwards to it, and gives it no queues"
            for port in switch.ports:
                if port.name not in described and port.number != OWN_PORT:
                    problem = f"the description lacks this port; Sluice {does}"
                    self._note("port-unused", f"{declared.name}:{port.name}", problem, is_error=False)
