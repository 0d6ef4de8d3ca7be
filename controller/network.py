# SPDX-License-Identifier: Apache-2.0
"""Keeps the graph of a network that Sluice did not make: what the operator describes, and what switches report.

    description ─┐
    sightings ───┴─▶ realise ─▶ graph and findings ─▶ rows of the store

Without a description, the network is described by what is seen. A topology that another program has put into the store,
as the testbed does, stays as it is. Pure: the caller passes the time, sends the frames and writes the rows.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sluice.controller.openflow import answers
from sluice.policy.network.description import (
    OWN_PORT,
    DeclaredPort,
    Network,
    PortAt,
    SeenHost,
    SeenSwitch,
    Sightings,
    discovered,
)
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import Finding, Realisation, realise

S = 1_000_000_000
ANNOUNCE_NS, FIRST_ANNOUNCE_NS = 5 * S, S // 4
"""Between two LLDP frames of a port; the second one until its switch has settled."""
LINK_LIFETIME_NS = 3 * ANNOUNCE_NS + S
SETTLE_NS = S
"""How long a new switch or port is asked for its links before Sluice forwards over it. A cable that no one has
described could close a loop."""
MOST_SETTLING_NS = 3 * SETTLE_NS
"""A port that goes up and down all the time delays no other news for longer than this."""
DUPLICATE_NS = 30 * S
"""How long a refused switch counts as there. Open vSwitch tries again after 8 s at the latest."""
PATIENCE_NS = 10 * S
"""How long a new leader waits for the switches that it expects, before it takes them for missing."""
DEPARTED_NS = 5 * S
"""How long a host is at its new place before its old switch forgets it. An address that two machines use moves no
more often than that."""


class Kind(StrEnum):
    """Where a managed topology comes from: the `kind` of its row."""

    DECLARED = "declared"
    DISCOVERED = "discovered"


@dataclass(frozen=True)
class News:
    """What has changed since the last call."""

    topology: Topology | None
    """None if it is the same."""
    sightings: Sightings
    appeared: tuple[Finding, ...]
    solved: tuple[Finding, ...]


@dataclass(frozen=True)
class Description:
    """What the operator says of the network."""

    network: Network | None
    """None if the network is not described."""
    withdrawn: bool = False
    """The operator has taken the description back: Sluice leaves all switches."""
    generation: int = 0
    """Of the lease under which this was read."""


class NetworkKeeper:
    """The network, as far as it is known."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._network: Network | None = None
        self._manages = False
        """Whether the graph follows from the description and the sightings."""
        self._switches: dict[int, SeenSwitch] = {}
        self._described_ns: dict[int, int] = {}
        """Datapath id → when the switch described its ports, or one of them."""
        self._links: dict[PortAt, tuple[PortAt, int]] = {}
        """Port → the port whose frames arrive there, and when the last one did."""
        self._hosts: dict[SeenHost, int] = {}
        """Host and its place → when it was first seen there."""
        self._remembering: set[int] = set()
        """Datapath ids of the switches that have said whom they remember since they connected."""
        self._agents: Mapping[str, str] = {}
        """MAC address → name of the agent that reports it."""
        self._columns: Mapping[str, DeclaredPort] = {}
        """Port → its VLANs in the database of its switch."""
        self._duplicates: dict[int, tuple[str, int]] = {}
        """Datapath id → where the refused switch is, and when it was refused last."""
        self._announce_ns: dict[int, int] = {}
        """Datapath id → when its ports send their next frames."""
        self._topology: Topology | None = None
        self._findings: tuple[Finding, ...] = ()
        self._dirty, self._began_ns = True, 0
        self._dirty_since_ns: int | None = None

    def adopt(self, description: Description, topology: Topology | None, now_ns: int) -> None:
        """Take the description and the topology of the store."""
        network = description.network
        foreign = topology is not None and topology.kind not in tuple(Kind)
        manages = network is not None or not (foreign or description.withdrawn)
        if (network, manages) != (self._network, self._manages):
            self._network, self._manages, self._topology = network, manages, topology
            self._dirty, self._began_ns = True, now_ns
            if topology is not None and not foreign and not self._hosts:
                self._hosts = dict.fromkeys(_learned_hosts(topology), now_ns)

    def agents_named(self, agents: Mapping[str, str]) -> None:
        """Take the names of the agents by MAC address."""
        if agents != self._agents:
            self._agents, self._dirty = dict(agents), True

    def columns_reported(self, columns: Mapping[str, DeclaredPort]) -> None:
        """Take the VLANs of ports that port agents report."""
        if columns != self._columns:
            self._columns, self._dirty = dict(columns), True

    def wants(self, dpid: int) -> bool:
        """Whether a switch that is not in the graph could become part of it."""
        if self._network is None:
            return self._manages
        return dpid in {switch.dpid for switch in self._network.switch}

    def first_table(self, dpid: int) -> int:
        """Return the first table that Sluice uses at a switch."""
        declared = self._network.switch if self._network is not None else ()
        return next((switch.first_table for switch in declared if switch.dpid == dpid), 0)

    # ── Sightings ───────────────────────────────────────────────────────────────────────────────

    def described(self, dpid: int, description: answers.PortDescription, now_ns: int) -> None:
        """Take the ports of a switch that has connected."""
        self._switches[dpid] = SeenSwitch(dpid, description.bridge, description.ports)
        self._described_ns.setdefault(dpid, now_ns)
        self._remembering.discard(dpid)
        self._announce_ns[dpid] = now_ns
        self._dirty = True

    def port_changed(self, dpid: int, status: answers.PortStatus, now_ns: int) -> None:
        """Take a change of one port. What was seen behind a port that is down is forgotten."""
        switch = self._switches.get(dpid)
        if switch is None:
            return
        others = tuple(port for port in switch.ports if port.number != status.port.number)
        gone = status.reason is answers.PortReason.DELETE
        ports = others if gone else (*others, status.port)
        self._switches[dpid] = replace(switch, ports=tuple(sorted(ports, key=lambda port: port.number)))
        if gone or not status.port.up:
            self._forget_links(lambda at: at == (dpid, status.port.number))
        before = next((port for port in switch.ports if port.number == status.port.number), None)
        was_up = before is not None and before.up
        if status.reason is answers.PortReason.ADD or (not gone and status.port.up and not was_up):
            self._described_ns[dpid] = now_ns
        self._announce_ns[dpid] = now_ns
        self._dirty = True

    def neighbour(self, dpid: int, frame: answers.Neighbour, now_ns: int) -> None:
        """Take an LLDP frame that has arrived at a switch."""
        if not self._manages or not frame.is_genuine(self._key):
            return
        at, source = (dpid, frame.arrived_at), (frame.dpid, frame.number)
        before = self._links.get(at)
        self._links[at] = (source, now_ns)
        if before is None or before[0] != source:
            # So that the other end learns of the link, too.
            self._dirty, self._announce_ns[dpid] = True, now_ns

    def hosts_seen(self, dpid: int, hosts: Mapping[SeenHost, float], now_ns: int) -> None:
        """Take the hosts that a switch remembers, with their ages in seconds, of which the first counts."""
        known = self._hosts if dpid in self._remembering else {}
        self._remembering.add(dpid)
        remembered = {host: known.get(host, now_ns - round(age_s * S)) for host, age_s in hosts.items()}
        elsewhere = {host: at_ns for host, at_ns in self._hosts.items() if host.at[0] != dpid}
        if self._hosts != elsewhere | remembered:
            self._hosts, self._dirty = elsewhere | remembered, True

    def departed(self, dpid: int, now_ns: int) -> list[SeenHost]:
        """Forget the hosts that have left this switch for another place. Return them for the switch to do the same.

        Otherwise nothing would be new when a host returns, as after a failover and back, and the other place would
        count until its switch forgets the host.
        """
        if len({host.key for host in self._hosts}) == len(self._hosts):
            return []  # as nearly always, and the search below sorts all hosts
        places = self._places()
        settled_ns = now_ns - DEPARTED_NS
        departed = [
            host
            for host in self._hosts
            if host.at[0] == dpid
            and host.at not in self._links
            and places[host.key] != host
            and self._hosts[places[host.key]] <= settled_ns
        ]
        for host in departed:
            del self._hosts[host]
        return departed

    def _places(self) -> dict[str, SeenHost]:
        """Return where each host is: where it appeared last, but at no link if it can.

        A switch remembers for minutes who sent through a link before the link was known. A host that an earlier
        controller has learned counts less if its switch stays away.
        """
        in_order = sorted(
            self._hosts,
            key=lambda host: (host.at not in self._links, host.at[0] in self._switches, self._hosts[host]),
        )
        return {host.key: host for host in in_order}

    def duplicate(self, dpid: int, refused: str, now_ns: int) -> None:
        """Take the place of a live switch that was refused, because another one has its datapath id."""
        self._dirty |= self._duplicates.get(dpid, ("", 0))[0] != refused
        self._duplicates[dpid] = refused, now_ns

    def connected_from(self, place: str) -> None:
        """Take that a switch at this place is connected, and not refused any more."""
        for dpid, (refused, _) in list(self._duplicates.items()):
            if place and refused == place:
                del self._duplicates[dpid]
                self._dirty = True

    def _forget_links(self, matches: Callable[[PortAt], bool]) -> None:
        for at, (source, _) in list(self._links.items()):
            if matches(at) or matches(source):
                del self._links[at]
                self._dirty = True

    # ── LLDP ────────────────────────────────────────────────────────────────────────────────────

    def announcements(self, dpid: int, now_ns: int) -> Iterator[bytes]:
        """Yield the messages that make the ports of a switch send LLDP frames, if they are due."""
        if not self._manages or dpid not in self._switches or now_ns < self._announce_ns[dpid]:
            return
        is_new = now_ns - self._described_ns[dpid] < SETTLE_NS
        self._announce_ns[dpid] = now_ns + (FIRST_ANNOUNCE_NS if is_new else ANNOUNCE_NS)
        for port in self._switches[dpid].ports:
            if port.up and port.number != OWN_PORT:
                yield answers.announcement(self._key, dpid, port.number)

    # ── The graph ───────────────────────────────────────────────────────────────────────────────

    def news(self, now_ns: int) -> News | None:
        """Return what has changed since the last call; None if nothing has."""
        if not self._manages:
            return None
        self._forget_links(lambda at: at in self._links and now_ns - self._links[at][1] > LINK_LIFETIME_NS)
        for dpid, (_, at_ns) in list(self._duplicates.items()):
            if now_ns - at_ns > DUPLICATE_NS:
                del self._duplicates[dpid]
                self._dirty = True
        if self._dirty and self._dirty_since_ns is None:
            self._dirty_since_ns = now_ns
        if not self._dirty or self._is_too_early(now_ns) or not (self._network or self._switches):
            return None
        self._dirty, self._dirty_since_ns = False, None
        sightings = self.sightings()
        realised = self._realised(sightings)
        before, self._findings = self._findings, realised.findings
        changed = realised.topology if realised.topology != self._topology else None
        self._topology = realised.topology
        return News(
            changed,
            sightings,
            tuple(finding for finding in realised.findings if finding not in before),
            tuple(finding for finding in before if finding not in realised.findings),
        )

    def _is_too_early(self, now_ns: int) -> bool:
        """Whether links of new switches may be missing, or switches that connect again to a new leader."""
        settled_ns = max(self._described_ns.values(), default=0) + SETTLE_NS
        assert self._dirty_since_ns is not None
        if now_ns < min(settled_ns, self._dirty_since_ns + MOST_SETTLING_NS) and self._described_ns:
            return True
        if self._topology is None or now_ns - self._began_ns > PATIENCE_NS:
            return False
        ports_of = self._topology.ports_of
        expected = [s for s in self._topology.switches if s.forwards and ports_of[s.name]]
        return any(switch.dpid not in self._switches for switch in expected)

    def sightings(self) -> Sightings:
        """Return all that the switches have reported."""
        links = {at: source for at, (source, _) in self._links.items()}
        places = self._places().items()
        hosts = {key: replace(host, agent=self._agents.get(host.mac, "")) for key, host in places}
        duplicates = {dpid: place for dpid, (place, _) in self._duplicates.items()}
        return Sightings(dict(self._switches), links, hosts, duplicates, self._columns)

    def _realised(self, sightings: Sightings) -> Realisation:
        if self._network is not None:
            realised, kind = realise(self._network, sightings), Kind.DECLARED
        else:
            realised, kind = realise(discovered(sightings), sightings), Kind.DISCOVERED
        parameters = {"network": realised.topology.kind}
        return replace(realised, topology=replace(realised.topology, kind=str(kind), parameters=parameters))


def _learned_hosts(topology: Topology) -> Iterator[SeenHost]:
    """Yield the hosts that an earlier controller has learned. They count until their switches have reported."""
    for host in topology.hosts:
        port = topology.edge_port(host.name)
        if port.peer != host.name:
            at = topology.switch_by_name[port.switch].dpid, port.number
            yield SeenHost(host.mac, at, host.ipv4, host.ipv6, vlan=host.vlan)
