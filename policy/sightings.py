# SPDX-License-Identifier: Apache-2.0
"""What the switches of a network report: their ports, the links between them, and the hosts behind their ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

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

    @property
    def name(self) -> str:
        """The name of its agent. Without an agent, a name that follows from the address."""
        return self.agent or self.learned_name

    @property
    def learned_name(self) -> str:
        return learned_name(self.mac)


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
    """By MAC address."""
    duplicates: Mapping[int, str] = field(default_factory=dict)
    """Datapath id → where another live switch with this id is. The controller refuses it."""

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {
            "switches": [asdict(switch) for switch in self.switches.values()],
            "links": [[*at, *to] for at, to in self.links.items()],
            "hosts": [asdict(host) for host in self.hosts.values()],
            "duplicates": [[dpid, place] for dpid, place in self.duplicates.items()],
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
            {host.mac: host for host in hosts},
            dict(document.get("duplicates", ())),
        )
