# SPDX-License-Identifier: Apache-2.0
"""The operator's description of a network: the file `network.toml`, its switches, ports and hosts.

The description names what an operator knows: datapath ids, interfaces, addresses. OpenFlow's port numbers and the
state of the links come from the switches (`policy/network/realised.py`).

A host has one name: the description's, its agent's, or one that follows from its address. `sluice network discover`
writes the third kind into a description. It says nothing about the host, so the name of the host's agent replaces it,
and figures of the agent and of the network are about one host.

What the switches report are sightings: their ports, the links between them, and the hosts behind their ports. The
description of a network that no one has described follows from them. All of this is pure.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Unknown
from sluice.policy.network.vlans import VlanMode, Vlans
from sluice.policy.schema.entries import TableOf, entries, entry, read, write
from sluice.policy.schema.kinds import Choice, Flag, ListOf, Rate, Text, Whole

MAX_TABLE = 247
"""The first table of a switch is at most this, because the pipeline needs the tables behind it."""

_NAME = Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", what='a name such as "rack1"')
_INTERFACE = Text(r"[^/:\s\x00-\x1f\x7f-\x9f]{1,64}", what='the name of an interface, such as "eth1"')
_DATAPATH_ID = Text(r"(0x)?[0-9A-Fa-f]{1,16}", what='1 to 16 hexadecimal digits, such as "00000000000000a1"')
_MAC = Text(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", what='a MAC address such as "52:54:00:12:34:56"')
_IPV4 = Text(r"([0-9]{1,3}\.){3}[0-9]{1,3}", what='an IPv4 address such as "192.0.2.11"')
_IPV6 = Text(r"[0-9A-Fa-f:.]{2,45}", what='an IPv6 address such as "2001:db8::11"')
_VLAN = Whole(0, 4095)
_LINK_END = Text(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}:[^/:\s\x00]{1,64}", what='a switch and its port, such as "rack2:eth1"'
)


@dataclass(frozen=True)
class DeclaredPort:
    """A [[switch.port]] table. Without `host` and `to`, the switch learns which hosts are behind the port."""

    name: str = entry(_INTERFACE, "Interface of the port on the switch's machine.")
    rate_bps: int | None = entry(
        Rate(1, 10**12),
        "Rate of the link. By default, the speed that the switch reports.",
        key="rate",
        default=None,
    )
    host: str | None = entry(_NAME, "The host at this port: the name of a [[host]] table.", default=None)
    to: str | None = entry(
        _LINK_END, "The port of another switch at the other end of the link.", default=None
    )
    uplink: bool = entry(
        Flag(),
        "The port leads out of the network. Sluice ignores the tags that arrive there and polices no one.",
        default=False,
    )
    tag: int | None = entry(_VLAN, "VLAN of frames that arrive without an 802.1Q header.", default=None)
    trunks: tuple[int, ...] = entry(
        ListOf(_VLAN, longest=4096, increasing=True),
        "VLANs of frames that arrive with a header. By default, all, unless the port is an access port.",
        default=(),
    )
    vlan_mode: str | None = entry(
        Choice(tuple(VlanMode)),
        "What the port does with headers, as in Open vSwitch. By default, access with tag, and else trunk.",
        default=None,
    )
    bond: str | None = entry(
        _INTERFACE,
        "Name of the bond that joins this port with others of the switch. The other end joins them, too.",
        default=None,
    )

    @property
    def vlans(self) -> Vlans | None:
        """Its VLANs; None if it names none."""
        return Vlans.of(self.tag, self.trunks, self.vlan_mode)


@dataclass(frozen=True)
class DeclaredSwitch:
    """A [[switch]] table."""

    name: str = entry(_NAME, "Name of the switch.")
    datapath_id: str | None = entry(
        _DATAPATH_ID,
        "OpenFlow datapath id, in hexadecimal digits. Needed unless forwarding = leave.",
        default=None,
    )
    forwarding: str = entry(
        Choice(("sluice", "leave")),
        "sluice: its rules forward. leave: a bridge, router or switch forwards by itself, with its VLANs, bonds and"
        " rules, and no controller is connected. A port agent gives the ports queues, which are interfaces of its"
        " machine.",
        default="sluice",
    )
    agent: str | None = entry(
        _NAME,
        "Port agent of the machine, with forwarding = leave. By default, it has the name of the switch. One agent can"
        " serve several bridges of its machine.",
        default=None,
    )
    datapath: str = entry(
        Choice(("userspace", "kernel")),
        "Datapath of Open vSwitch. userspace: rules carry the queue to the port in an 802.1p tag. kernel: they need no"
        " tag.",
        default="userspace",
    )
    first_table: int = entry(
        Whole(0, MAX_TABLE),
        "First of the eight OpenFlow tables that Sluice uses. With 0, the switch belongs to Sluice, which removes all"
        " other rules. Otherwise a rule of yours in a lower table sends packets there, and Sluice leaves all other"
        " tables alone.",
        default=0,
    )
    port: tuple[DeclaredPort, ...] = entry(
        ListOf(TableOf(DeclaredPort)), "Ports that Sluice manages.", default=()
    )

    @property
    def dpid(self) -> int:
        """The datapath id as a number. A switch without one has a number that follows from its name."""
        if self.datapath_id is not None:
            return int(self.datapath_id, 16)
        return int.from_bytes(b"\x7e" + hashlib.blake2b(self.name.encode(), digest_size=7).digest())

    @property
    def forwards(self) -> bool:
        """Whether rules of Sluice forward."""
        return self.forwarding == "sluice"

    def as_seen(self) -> SeenSwitch:
        """Return a switch that forwards by itself, as the description has it. Its ports count from 1."""
        ports = (SeenPort(i, port.name, port.rate_bps or 0, up=True) for i, port in enumerate(self.port, 1))
        return SeenSwitch(self.dpid, self.name, tuple(ports))


@dataclass(frozen=True)
class DeclaredHost:
    """A [[host]] table."""

    name: str = entry(_NAME, "Name of the host. Its agent has the same name.")
    mac: str = entry(_MAC, "MAC address of its interface.")
    ipv4: str | None = entry(_IPV4, "IPv4 address.", default=None)
    ipv6: str | None = entry(_IPV6, "IPv6 address.", default=None)


@dataclass(frozen=True)
class Network:
    """A whole description. `read_network` makes one and checks it."""

    switch: tuple[DeclaredSwitch, ...] = entry(ListOf(TableOf(DeclaredSwitch), shortest=1), "The switches.")
    name: str = entry(_NAME, "Name of the network.", default="network")
    unknown: str = entry(
        Choice(tuple(Unknown)),
        "A packet to an unknown address. flood: it goes to all ports on a spanning tree. normal: the switch forwards"
        " it by its own table of addresses; only for a network without loops. drop: it is dropped and counted.",
        default=str(Unknown.FLOOD),
    )
    host: tuple[DeclaredHost, ...] = entry(
        ListOf(TableOf(DeclaredHost)), "The hosts that have names.", default=()
    )

    def ports(self) -> Iterable[tuple[str, DeclaredSwitch, DeclaredPort]]:
        """Yield each port with its place in the document ("switch[0].port[2]") and its switch."""
        for i, switch in enumerate(self.switch):
            for j, port in enumerate(switch.port):
                yield f"switch[{i}].port[{j}]", switch, port


def as_written(table: object) -> dict[str, Any]:
    """Return a network's document as a user would write it: with units, and without defaults.

    `read_network` accepts it. Of a table of the network: the part of it.
    """
    shown = {}
    for spec in entries(type(table)):
        value = getattr(table, spec.name)
        if value is None or value == spec.default:
            continue
        if isinstance(value, tuple):
            value = [as_written(item) for item in value]
        shown[spec.key] = spec.kind.show_base(value) if isinstance(spec.kind, Rate) else value
    return shown


def read_network(document: Mapping[str, Any]) -> Network:
    """Check a description. Raises FieldError that names the key as the user wrote it."""
    network = read(Network, document)
    _check_unique("switch", "name", [switch.name for switch in network.switch])
    _check_unique("switch", "datapath_id", [switch.dpid for switch in network.switch])
    _check_unique("host", "name", [host.name for host in network.host])
    _check_unique("host", "mac", [host.mac.lower() for host in network.host])
    for i, switch in enumerate(network.switch):
        _check_forwarding(f"switch[{i}]", switch)
        _check_unique(f"switch[{i}].port", "name", [port.name for port in switch.port])
        _check_bonds(f"switch[{i}].port", switch)
    for place, _, port in network.ports():
        _check_vlans(place, port)
    _check_ends(network)
    return network


def _check_forwarding(where: str, switch: DeclaredSwitch) -> None:
    """Check what depends on whether Sluice forwards."""
    if not switch.forwards:
        if switch.datapath_id is not None or switch.first_table:
            key = "datapath_id" if switch.datapath_id is not None else "first_table"
            raise FieldError(f"{where}.{key}", 'is for OpenFlow; omit it with forwarding = "leave"')
        for j, port in enumerate(switch.port):
            if port.rate_bps is None:
                raise FieldError(
                    f"{where}.port[{j}].rate",
                    'is missing; it is needed with forwarding = "leave", such as "10Gbit"',
                )
            for key in ("tag", "trunks", "vlan_mode", "bond"):
                if getattr(port, key):
                    place = f"{where}.port[{j}].{key}"
                    raise FieldError(place, 'is for rules of Sluice; omit it with forwarding = "leave"')
    elif switch.datapath_id is None:
        raise FieldError(f"{where}.datapath_id", 'is missing; give it, or forwarding = "leave"')
    elif switch.agent is not None:
        raise FieldError(f"{where}.agent", 'is for forwarding = "leave"; omit it here')
    elif not switch.dpid:
        raise FieldError(f"{where}.datapath_id", "must not be 0")


def _check_vlans(place: str, port: DeclaredPort) -> None:
    """Check that the mode of a port fits its VLANs."""
    mode = port.vlan_mode
    if mode == VlanMode.TRUNK and port.tag is not None:
        raise FieldError(f"{place}.tag", 'is for a port with a native VLAN; omit it with vlan_mode = "trunk"')
    if mode not in (None, VlanMode.TRUNK) and port.tag is None:
        raise FieldError(f"{place}.tag", f'is missing; it is needed with vlan_mode = "{mode}"')
    if port.trunks and port.tag is not None and mode in (None, VlanMode.ACCESS):
        raise FieldError(
            f"{place}.trunks",
            'an access port has none; omit it, or write vlan_mode = "native-untagged" or "native-tagged"',
        )


def _check_bonds(where: str, switch: DeclaredSwitch) -> None:
    """Check that a bond has several ports, which lead to one place."""
    for j, port in enumerate(switch.port):
        if port.bond is None:
            continue
        place, members = f"{where}[{j}]", [other for other in switch.port if other.bond == port.bond]
        if port.to is not None:
            raise FieldError(f"{place}.bond", "parallel links between two switches need no bond; omit it")
        if len(members) < 2:
            raise FieldError(f"{place}.bond", f'"{port.bond}" has no other port; a bond needs two')
        if (port.vlans, port.uplink) != (members[0].vlans, members[0].uplink):
            raise FieldError(
                place, f'must have the VLANs and the uplink of the others of the bond "{port.bond}"'
            )


def _check_unique(table: str, key: str, values: list[Any]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            second = [i for i, other in enumerate(values) if other == value][1]
            shown = f"{value:016x}" if isinstance(value, int) else f'"{value}"'
            raise FieldError(
                f"{table}[{second}].{key}", f"{shown} is already in {table}[{values.index(value)}]"
            )


def _check_ends(network: Network) -> None:
    """Check that hosts exist, have one port, and that links name each other."""
    hosts = {host.name for host in network.host}
    place_of: dict[str, str] = {}
    ends = {f"{switch.name}:{port.name}": port.to for _, switch, port in network.ports()}
    for place, switch, port in network.ports():
        here = f"{switch.name}:{port.name}"
        if port.host is not None and (port.to is not None or port.uplink):
            raise FieldError(place, "needs one of host, to and uplink, and not more")
        if port.host is not None:
            if port.host not in hosts:
                raise FieldError(f"{place}.host", f'"{port.host}" has no [[host]] table')
            if port.host in place_of:
                raise FieldError(f"{place}.host", f'"{port.host}" is already at {place_of[port.host]}')
            place_of[port.host] = place
        if port.to is not None:
            where = f"{place}.to"
            if port.uplink:
                raise FieldError(where, "a link between two switches is no uplink; omit uplink or to")
            if port.to not in ends:
                raise FieldError(where, f'"{port.to}" is no port of this description')
            if port.to == here or ends[port.to] != here:
                raise FieldError(where, f'the port "{port.to}" must have to = "{here}"')


PortAt: TypeAlias = tuple[int, int]
"""(datapath id, OpenFlow port number)."""

OWN_PORT = 0xFFFE
"""The number by which Sluice knows a switch's own port (OFPP_LOCAL). It has the name of the bridge."""


@dataclass(frozen=True)
class SeenPort:
    """A port as its switch describes it."""

    number: int
    name: str
    rate_bps: int
    """0 if the switch names no speed."""
    up: bool


@dataclass(frozen=True)
class SeenSwitch:
    """A switch that is connected, or was."""

    dpid: int
    name: str
    """Name of its bridge; empty if unknown."""
    ports: tuple[SeenPort, ...]

    def port_named(self, name: str) -> SeenPort | None:
        return next((port for port in self.ports if port.name == name), None)


@dataclass(frozen=True)
class SeenHost:
    """An address that sends packets, and the port at which they enter the network."""

    mac: str
    at: PortAt
    ipv4: str = ""
    ipv6: str = ""
    agent: str = ""
    """Name of the agent that reports this MAC address; empty if there is none."""
    vlan: int = 0

    @property
    def key(self) -> str:
        """What tells the host from others: one address may be used in several VLANs, at different places."""
        return f"{self.mac} {self.vlan}" if self.vlan else self.mac

    @property
    def name(self) -> str:
        """The name of its agent. Without an agent, a name that follows from the address."""
        return self.agent or learned_name(self.mac)


def learned_name(mac: str) -> str:
    """Return the name of a host of which only the address is known."""
    return f"mac-{mac.replace(':', '')}"


@dataclass(frozen=True)
class Sightings:
    """All that the switches have reported."""

    switches: Mapping[int, SeenSwitch] = field(default_factory=dict)
    """By datapath id."""
    links: Mapping[PortAt, PortAt] = field(default_factory=dict)
    """Port → the port whose LLDP frames arrive there."""
    hosts: Mapping[str, SeenHost] = field(default_factory=dict)
    """By SeenHost.key."""
    duplicates: Mapping[int, str] = field(default_factory=dict)
    """Datapath id → where another live switch with this id is. The controller refuses it."""
    columns: Mapping[str, DeclaredPort] = field(default_factory=dict)
    """Port ("rack1:eth1") → its VLANs in the database of its switch, as port agents report them."""

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {
            "switches": [asdict(switch) for switch in self.switches.values()],
            "links": [[*at, *to] for at, to in self.links.items()],
            "hosts": [asdict(host) for host in self.hosts.values()],
            "duplicates": [[dpid, place] for dpid, place in self.duplicates.items()],
            "columns": {where: write(port) for where, port in self.columns.items()},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sightings:
        switches = (
            SeenSwitch(s["dpid"], s["name"], tuple(SeenPort(**port) for port in s["ports"]))
            for s in document["switches"]
        )
        hosts = (SeenHost(**{**host, "at": tuple(host["at"])}) for host in document["hosts"])
        return cls(
            {switch.dpid: switch for switch in switches},
            {(a, b): (c, d) for a, b, c, d in document["links"]},
            {host.key: host for host in hosts},
            dict(document.get("duplicates", ())),
            {where: read(DeclaredPort, port) for where, port in document.get("columns", {}).items()},
        )


class HostNames:
    """The names of the hosts of a network."""

    def __init__(self, network: Network, seen: Sightings) -> None:
        self._agents = {host.mac: host.agent for host in seen.hosts.values()}
        self._declared = {host.name: host.mac.lower() for host in network.host}
        self._taken = {switch.name for switch in network.switch}
        self._shown = {name: self._replaced(name, mac) for name, mac in self._declared.items()}

    def shown(self, declared: str) -> str:
        """Return the name of a described host."""
        return self._shown[declared]

    def learned(self, mac: str) -> str:
        """Return the name of a host that is not described."""
        name = self._agents[mac] or learned_name(mac)
        return learned_name(mac) if name in self._declared or name in self._taken else name

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the described hosts whose agents have other names, and the agents with names of others."""
        by_mac = {mac: name for name, mac in self._declared.items()}
        for mac, agent in self._agents.items():
            described = by_mac.get(mac)
            if not agent or (described is not None and self._shown[described] == agent):
                continue
            if described is not None:
                yield (
                    described,
                    f"its agent has the name {agent}; give both one name, because their figures are shown apart",
                )
            elif agent in self._declared:
                yield (
                    agent,
                    f"the description says {self._declared[agent]}, but the agent of this name reports {mac}",
                )

    def _replaced(self, name: str, mac: str) -> str:
        agent = self._agents.get(mac)
        if not agent or name != learned_name(mac):
            return name
        return name if agent in self._declared or agent in self._taken else agent


def discovered(seen: Sightings) -> Network:
    """Describe what the switches report: links by LLDP, everything else as ports with learned hosts."""
    names: dict[int, str] = {}
    for dpid, switch in sorted(seen.switches.items()):
        plain = switch.name or f"s{dpid:x}"
        # The datapath id decides if two bridges have one name.
        names[dpid] = plain if plain not in names.values() else f"{plain}-{dpid:x}"
    switches = tuple(
        DeclaredSwitch(names[dpid], f"{dpid:016x}", port=tuple(_discovered_ports(switch, seen, names)))
        for dpid, switch in sorted(seen.switches.items())
    )
    hosts: list[DeclaredHost] = []
    taken = set(names.values())
    for host in (seen.hosts[key] for key in sorted(seen.hosts)):
        if any(host.mac == other.mac for other in hosts):  # once for all its VLANs
            continue
        name = host.name if host.name not in taken else learned_name(host.mac)
        taken.add(name)
        hosts.append(DeclaredHost(name, host.mac, host.ipv4 or None, host.ipv6 or None))
    return Network(switches, unknown=str(Unknown.FLOOD), host=tuple(hosts))


def _discovered_ports(switch: SeenSwitch, seen: Sightings, names: dict[int, str]) -> Iterator[DeclaredPort]:
    for port in switch.ports:
        other = seen.links.get((switch.dpid, port.number))
        far = seen.switches.get(other[0]) if other else None
        if port.number == OWN_PORT:
            continue  # Sluice forwards to it, and a description cannot give it queues
        if other is None:
            yield DeclaredPort(port.name, port.rate_bps or None)
        elif far is not None and seen.links.get(other) == (switch.dpid, port.number):
            to = next((p.name for p in far.ports if p.number == other[1]), None)
            yield DeclaredPort(port.name, port.rate_bps or None, to=f"{names[far.dpid]}:{to}")
