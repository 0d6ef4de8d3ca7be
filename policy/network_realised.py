# SPDX-License-Identifier: Apache-2.0
"""From a description and the sightings of the switches to the graph that Sluice forwards over.

`realise` is pure. It leaves out what no switch has, so a contradiction costs only the port that it is about.
`discovered` describes what the switches report, if no one has described the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from policy.graph import Host, Port, Switch, Topology, Unknown
from policy.network import DeclaredHost, DeclaredPort, DeclaredSwitch, Network
from policy.sightings import PortAt, SeenHost, SeenPort, SeenSwitch, Sightings
from policy.units import format_rate

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
        self._network, self._seen = network, seen
        self._findings: list[Finding] = []
        self._declared = {switch.dpid: switch for switch in network.switch}
        self._at: dict[str, PortAt] = {}
        """Declared port ("rack1:eth1") → where it is."""
        self._seen_ports: dict[PortAt, SeenPort] = {}
        self._locate()
        self._name_at = {at: name for name, at in self._at.items()}

    def realisation(self) -> Realisation:
        ports = tuple(self._ports())
        hosts = tuple(self._hosts({port.id: port for port in ports}))
        self._find_strangers()
        switches = tuple(
            Switch(s.name, s.dpid, s.datapath == "userspace", s.first_table) for s in self._network.switch
        )
        topology = Topology(
            self._network.name, hosts, switches, ports, unknown=self._network.unknown, learns=True
        )
        return Realisation(topology, tuple(self._findings))

    def _note(self, kind: str, where: str, problem: str, *, is_error: bool = True) -> None:
        self._findings.append(Finding(kind, where, problem, is_error))

    # ── Ports ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _locate(self) -> None:
        """Find each declared port at its switch."""
        for switch in self._network.switch:
            seen = self._seen.switches.get(switch.dpid)
            if seen is None:
                self._note("switch-missing", switch.name, f"no switch has connected with {switch.dpid:016x}")
                continue
            for port in switch.port:
                found = seen.port_named(port.name)
                if found is None:
                    there = ", ".join(sorted(p.name for p in seen.ports)) or "none"
                    self._note(
                        "port-missing",
                        f"{switch.name}:{port.name}",
                        f"the switch has no port of this name; its ports: {there}",
                    )
                    continue
                self._at[f"{switch.name}:{port.name}"] = (switch.dpid, found.number)
                self._seen_ports[switch.dpid, found.number] = found

    def _ports(self) -> Iterator[Port]:
        for _, switch, port in self._network.ports():
            at = self._at.get(f"{switch.name}:{port.name}")
            if at is None:
                continue
            made = self._link(switch, port, at) if port.to else self._edge(switch, port, at)
            if made is not None:
                yield made

    def _edge(self, switch: DeclaredSwitch, port: DeclaredPort, at: PortAt) -> Port | None:
        other = self._seen.links.get(at)
        if other is not None:
            self._note(
                "loop",
                f"{switch.name}:{port.name}",
                f"leads to the switch port {self._shown(other)}, not to hosts. Sluice does not use the port, because"
                " packets could circle; unplug it, or describe the link with to",
            )
            return None
        found = self._seen_ports[at]
        return Port(
            switch.name,
            found.number,
            port.host or f"{switch.name}:{port.name}",
            0,
            self._rate(switch, port, found),
            edge=True,
            name=port.name,
            up=found.up,
            uplink=port.uplink,
        )

    def _link(self, switch: DeclaredSwitch, port: DeclaredPort, at: PortAt) -> Port | None:
        assert port.to is not None
        to = self._at.get(port.to)
        if to is None:
            return None
        found, far = self._seen_ports[at], self._seen_ports[to]
        other = self._seen.links.get(at)
        where = f"{switch.name}:{port.name}"
        up = found.up and far.up
        if not found.up:
            self._note("link-down", where, f"the link to {port.to} is down")
        if other is not None and other != to:
            up = False
            self._note(
                "miswired", where, f"leads to {self._shown(other)}, but the description says {port.to}"
            )
        peer, _, _ = port.to.partition(":")
        rate_bps = self._rate(switch, port, found)
        return Port(switch.name, found.number, peer, to[1], rate_bps, name=port.name, up=up)

    def _rate(self, switch: DeclaredSwitch, port: DeclaredPort, found: SeenPort) -> int:
        if port.rate_bps is None and not found.rate_bps:
            self._note(
                "rate-unknown",
                f"{switch.name}:{port.name}",
                f"neither the description nor the port names a rate; {format_rate(DEFAULT_RATE_BPS)} is assumed",
            )
        if port.rate_bps is None:
            return found.rate_bps or DEFAULT_RATE_BPS
        if found.rate_bps and port.rate_bps > found.rate_bps:
            self._note(
                "rate",
                f"{switch.name}:{port.name}",
                f"the description says {format_rate(port.rate_bps)}, but the port runs at"
                f" {format_rate(found.rate_bps)}; queues would build up behind it",
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
        for mac, declared in by_mac.items():
            if found := self._declared_host(mac, declared, at_port, ports):
                yield found
        for mac, learned in self._seen.hosts.items():
            port = self._edge_at(learned.at, ports)
            if mac not in by_mac and port is not None:
                yield Host(_learned_name(mac), mac, learned.ipv4, learned.ipv6, port.id)

    def _declared_host(
        self, mac: str, host: DeclaredHost, at_port: dict[str, Port], ports: dict[str, Port]
    ) -> Host | None:
        fixed, learned = at_port.get(host.name), self._seen.hosts.get(mac)
        found = self._edge_at(learned.at, ports) if learned else None
        if fixed is not None and found is not None and found != fixed:
            assert learned is not None
            self._note(
                "host-elsewhere",
                host.name,
                f"the description says {fixed.switch}:{fixed.name}, but its packets come from"
                f" {self._shown(learned.at)}; Sluice sends its packets there",
            )
        port = found or fixed
        if port is None:
            self._note(
                "host-missing",
                host.name,
                "no port is declared for it, and no packet of it was seen",
                is_error=False,
            )
            return None
        seen = learned or SeenHost(mac, (0, 0))
        return Host(host.name, mac, host.ipv4 or seen.ipv4, host.ipv6 or seen.ipv6, port.id)

    def _edge_at(self, at: PortAt, ports: dict[str, Port]) -> Port | None:
        declared = self._declared.get(at[0])
        port = ports.get(f"{declared.name}:{at[1]}") if declared else None
        return port if port is not None and port.edge else None

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
            known = {port.name for port in declared.port}
            for port in switch.ports:
                if port.name not in known:
                    self._note(
                        "port-unused",
                        f"{declared.name}:{port.name}",
                        "the description lacks this port; Sluice leaves it alone",
                        is_error=False,
                    )


def _learned_name(mac: str) -> str:
    return f"mac-{mac.replace(':', '')}"


# ── Discovery ──────────────────────────────────────────────────────────────────────────────────────────────────────


def discovered(seen: Sightings) -> Network:
    """Describe what the switches report: links by LLDP, everything else as ports with learned hosts."""
    names = _switch_names(seen)
    switches = tuple(
        DeclaredSwitch(names[dpid], f"{dpid:016x}", port=tuple(_discovered_ports(switch, seen, names)))
        for dpid, switch in sorted(seen.switches.items())
    )
    hosts = tuple(
        DeclaredHost(_learned_name(mac), mac, host.ipv4 or None, host.ipv6 or None)
        for mac, host in sorted(seen.hosts.items())
    )
    return Network(switches, unknown=str(Unknown.FLOOD), host=hosts)


def _discovered_ports(switch: SeenSwitch, seen: Sightings, names: dict[int, str]) -> Iterator[DeclaredPort]:
    for port in switch.ports:
        other = seen.links.get((switch.dpid, port.number))
        far = seen.switches.get(other[0]) if other else None
        if other is None:
            yield DeclaredPort(port.name, port.rate_bps or None)
        elif far is not None and seen.links.get(other) == (switch.dpid, port.number):
            to = next((p.name for p in far.ports if p.number == other[1]), None)
            yield DeclaredPort(port.name, port.rate_bps or None, to=f"{names[far.dpid]}:{to}")


def _switch_names(seen: Sightings) -> dict[int, str]:
    """Return the name of each bridge; the datapath id decides if two bridges have one name."""
    names: dict[int, str] = {}
    for dpid, switch in sorted(seen.switches.items()):
        plain = switch.name or f"s{dpid:x}"
        names[dpid] = plain if plain not in names.values() else f"{plain}-{dpid:x}"
    return names
