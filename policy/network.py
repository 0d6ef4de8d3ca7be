# SPDX-License-Identifier: Apache-2.0
"""The operator's description of a network: the file `network.toml`, its switches, ports and hosts.

The description names what an operator knows: datapath ids, interfaces, addresses. OpenFlow's port numbers and the
state of the links come from the switches (`policy/network_realised.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.policy.entries import TableOf, entries, entry, read
from sluice.policy.errors import FieldError
from sluice.policy.graph import Unknown
from sluice.policy.kinds import Choice, Flag, ListOf, Rate, Text, Whole

MAX_TABLE = 247
"""The first table of a switch is at most this, because the pipeline needs the tables behind it."""

_NAME = Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", what='a name such as "rack1"')
_INTERFACE = Text(r"[^/:\s\x00-\x1f\x7f-\x9f]{1,64}", what='the name of an interface, such as "eth1"')
_DATAPATH_ID = Text(r"(0x)?[0-9A-Fa-f]{1,16}", what='1 to 16 hexadecimal digits, such as "00000000000000a1"')
_MAC = Text(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", what='a MAC address such as "52:54:00:12:34:56"')
_IPV4 = Text(r"([0-9]{1,3}\.){3}[0-9]{1,3}", what='an IPv4 address such as "192.0.2.11"')
_IPV6 = Text(r"[0-9A-Fa-f:.]{2,45}", what='an IPv6 address such as "2001:db8::11"')
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


@dataclass(frozen=True)
class DeclaredSwitch:
    """A [[switch]] table."""

    name: str = entry(_NAME, "Name of the switch.")
    datapath_id: str = entry(_DATAPATH_ID, "OpenFlow datapath id, in hexadecimal digits.")
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
        """The datapath id as a number."""
        return int(self.datapath_id, 16)


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


def as_written(network: Network) -> dict[str, Any]:
    """Return the document as a user would write it: with units, and without defaults. `read_network` accepts it."""
    return _as_written(network)


def _as_written(table: object) -> dict[str, Any]:
    shown = {}
    for one in entries(type(table)):
        value = getattr(table, one.name)
        if value is None or value == one.default:
            continue
        if isinstance(value, tuple):
            value = [_as_written(item) for item in value]
        shown[one.key] = one.kind.show_base(value) if isinstance(one.kind, Rate) else value
    return shown


def read_network(document: Mapping[str, Any]) -> Network:
    """Check a description. Raises FieldError that names the key as the user wrote it."""
    network = read(Network, document)
    _check_unique("switch", "name", [switch.name for switch in network.switch])
    _check_unique("switch", "datapath_id", [switch.dpid for switch in network.switch])
    _check_unique("host", "name", [host.name for host in network.host])
    _check_unique("host", "mac", [host.mac.lower() for host in network.host])
    for i, switch in enumerate(network.switch):
        if not switch.dpid:
            raise FieldError(f"switch[{i}].datapath_id", "must not be 0")
        _check_unique(f"switch[{i}].port", "name", [port.name for port in switch.port])
    _check_ends(network)
    return network


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
            _check_link(f"{place}.to", here, port, ends)


def _check_link(where: str, here: str, port: DeclaredPort, ends: Mapping[str, str | None]) -> None:
    assert port.to is not None
    if port.uplink:
        raise FieldError(where, "a link between two switches is no uplink; omit uplink or to")
    if port.to not in ends:
        raise FieldError(where, f'"{port.to}" is no port of this description')
    if port.to == here or ends[port.to] != here:
        raise FieldError(where, f'the port "{port.to}" must have to = "{here}"')
