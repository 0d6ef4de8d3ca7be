# SPDX-License-Identifier: Apache-2.0
"""The switch pipeline as data: its tables, and every rule of a switch.

    edge ──▶ ingress ──▶ forward ──▶ completed ──▶ map ──▶ out
    │ learn  tag, group  port into   │ FIN         queue, 802.1p
    │        → metadata  metadata    │             priority, output
    │                                └──▶ ends: count port × tag × group
    ├──▶ flows: count flow × tag, for an overlay (overlay.py)
    └──▶ hosts: remember sender × port

The egress port and the tag are in the metadata when a packet reaches `map`. Therefore IPv4 and IPv6
share that table, and a threshold change modifies one rule for each tag and port. The group of the ingress port is
there, too, so the ends of flows are counted by where they came from.

Pure: `openflow/` translates the rules into messages.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from sluice.controller.forwarding import forwarding_rules, keeps_vlans
from sluice.controller.rules import (
    FlowRule,
    LearnHost,
    Masked,
    Match,
    MatchValue,
    Output,
    PushVlan,
    Resubmit,
    SetPriority,
    SetQueue,
    Source,
    SwitchRules,
)
from sluice.controller.tables import (
    CODE_MASK,
    CONTROLLER,
    FAMILIES,
    GROUP_MASK,
    ICMPV6,
    NOT_IP,
    PORT_BITS,
    PORT_MASK,
    TCP,
    UDP,
    VLAN,
    VLAN_PRESENT,
    Table,
    cookie,
    group_and_code,
    match_on,
    port_and_code,
    port_number,
)
from sluice.policy import tags
from sluice.policy.network.graph import TRUNKS, Topology, ingress_groups
from sluice.policy.schema.desired import QueueMap

_FIN = 0x001

# ── edge ───────────────────────────────────────────────────────────────────────────────────────

_NEIGHBOUR_DISCOVERY = (135, 136)
"""Types of ICMPv6: neighbour solicitation and advertisement."""
_ARP, _LLDP = 0x0806, 0x88CC


def edge_rules(learning: Iterable[int] = ()) -> Iterator[FlowRule]:
    """Yield the rules that learn who sends from these edge ports. All packets go on to the table `ingress`."""
    yield FlowRule(Table.EDGE, 0, (), goto=Table.INGRESS, cookie=cookie(Table.EDGE))
    for port in learning:
        yield from sender_rules(port)


def sender_rules(port: int) -> Iterator[FlowRule]:
    """Yield the rules that learn who sends from a port. ARP and neighbour discovery also show the sender's address."""
    sender = learn_sender(port)
    yield sender_rule(port, 2, sender)
    yield sender_rule(port, 30, sender, LearnHost(port, Source.ARP), eth_type=_ARP)
    for kind in _NEIGHBOUR_DISCOVERY:
        of_kind = {"eth_type": FAMILIES[1], "ip_proto": ICMPV6, "icmpv6_type": kind}
        yield sender_rule(port, 30, sender, LearnHost(port, Source.NEIGHBOUR), **of_kind)


def learn_sender(port: int) -> LearnHost:
    """Return the action that learns who sends from a port."""
    return LearnHost(port, Source.ETHERNET)


def sender_rule(port: int, priority: int, *actions: LearnHost, **fields: MatchValue) -> FlowRule:
    """Return a rule for packets that a port's host sends, with these fields. They go on to `ingress`."""
    match = match_on(in_port=port_number(port), **fields)
    return FlowRule(Table.EDGE, priority, match, actions, goto=Table.INGRESS, cookie=cookie(Table.EDGE, port))


def lldp_rule() -> FlowRule:
    """Return the rule that sends the controller's own LLDP frames back to it."""
    match = match_on(eth_type=_LLDP)
    return FlowRule(Table.EDGE, 100, match, (Output(CONTROLLER),), cookie=cookie(Table.EDGE))


# ── ingress ────────────────────────────────────────────────────────────────────────────────────

_MISS, _BY_FAMILY, _BY_TAG, _BY_PORT_FAMILY, _BY_PORT_TAG, _UPLINK, _VLAN = 0, 10, 20, 30, 40, 50, 60


def _classify(
    priority: int, match: Match, code: int, port: int = 0, family: int = 0, group: int = TRUNKS
) -> FlowRule:
    return FlowRule(
        Table.INGRESS,
        priority,
        match,
        write_metadata=(group_and_code(group, code), GROUP_MASK | CODE_MASK),
        goto=Table.FORWARD,
        cookie=cookie(Table.INGRESS, port, code, family),
    )


def ingress_rules(edge_ports: Mapping[int, int], uplinks: Iterable[int] = ()) -> Iterator[FlowRule]:
    """Yield the rules that load tag and group into metadata and, at edge ports, count packets by tag.

    `edge_ports`: number → group of ingress ports. What arrives elsewhere is of the group of trunks.
    DSCP 0 and the unassigned values 62 and 63 have no rules. The rule of the address family treats
    them as untagged. What arrives at an uplink counts as untagged, too, because others have written its DSCP.
    """
    yield _classify(_MISS, (), NOT_IP)
    for index, family in enumerate(FAMILIES):
        yield _classify(_BY_FAMILY, match_on(eth_type=family), tags.UNTAGGED, family=index)
        for tag in range(1, tags.TAG_COUNT):
            yield _classify(_BY_TAG, match_on(eth_type=family, ip_dscp=tag), tag, family=index)
    for port, group in edge_ports.items():
        yield from edge_port_rules(port, group)
    for port in uplinks:
        for index, family in enumerate(FAMILIES):
            yield _classify(
                _UPLINK, match_on(eth_type=family, in_port=port_number(port)), tags.UNTAGGED, port, index
            )


def vlan_rule() -> FlowRule:
    """Return the rule for frames of the operator's VLANs. They keep their one tag (see `cookies.VLAN`)."""
    return _classify(_VLAN, match_on(vlan_vid=(VLAN_PRESENT, VLAN_PRESENT)), VLAN)


def edge_port_rules(port: int, group: int) -> Iterator[FlowRule]:
    """Yield the rules that count an edge port's packets by tag. `group`: the port's group of ingress ports."""
    for index, family in enumerate(FAMILIES):
        of_family = {"eth_type": family, "in_port": port_number(port)}
        yield _classify(_BY_PORT_FAMILY, match_on(**of_family), tags.UNTAGGED, port, index, group)
        for tag in range(1, tags.TAG_COUNT):
            match = match_on(**of_family, ip_dscp=tag)
            yield _classify(_BY_PORT_TAG, match, tag, port, index, group)


# ── completed ──────────────────────────────────────────────────────────────────────────────────


def completed_rules() -> Iterator[FlowRule]:
    """Yield the rules that send FIN packets through the table `ends`."""
    yield FlowRule(Table.COMPLETED, _MISS, (), goto=Table.MAP, cookie=cookie(Table.COMPLETED))
    for family in FAMILIES:
        match = match_on(eth_type=family, ip_proto=TCP, tcp_flags=(_FIN, _FIN))
        yield FlowRule(
            Table.COMPLETED,
            10,
            match,
            (Resubmit(Table.ENDS),),
            goto=Table.MAP,
            cookie=cookie(Table.COMPLETED),
        )


def ends_rules(ports: Iterable[int], groups: Collection[int]) -> Iterator[FlowRule]:
    """Yield the rules that count FIN packets by egress port, group of ingress ports and tag.

    The counters are the histogram of completed flow sizes. Only tags of attained service have a
    rule, because no other tag shows how much the flow has sent.
    """
    mask = PORT_MASK | CODE_MASK | GROUP_MASK
    for port in ports:
        for group in groups:
            for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1):
                match = match_on(metadata=(group_and_code(group, tag) | port, mask))
                yield FlowRule(Table.ENDS, 10, match, cookie=cookie(Table.ENDS, port, tag, group))


_PLAIN, _UNTAGGED, _WITH_PORTS, _FRAGMENT, _OTHERS = 1, 2, 3, 4, 5
_LATER_FRAGMENT = 2
"""Open vSwitch's ip_frag: the packet is a fragment and not the first one."""


def unaccountable_rules(reserved: Iterable[int] = ()) -> Iterator[FlowRule]:
    """Yield the rules that take the tag of packets whose flow no counter can name: they count as background.

    These are IP packets of protocols other than TCP and UDP, and later fragments. Untagged packets and those with a
    `reserved` DSCP keep their queue, and so do frames of the operator's VLANs.
    """
    background = (tags.BACKGROUND << PORT_BITS, CODE_MASK)
    yield _accounting(_OTHERS, match_on(metadata=(VLAN << PORT_BITS, CODE_MASK)))
    for code in reserved:
        yield _accounting(_OTHERS, match_on(metadata=(code << PORT_BITS, CODE_MASK)))
    for family in FAMILIES:
        yield _accounting(_PLAIN, match_on(eth_type=family), background)
        untagged = match_on(eth_type=family, metadata=(tags.UNTAGGED << PORT_BITS, CODE_MASK))
        yield _accounting(_UNTAGGED, untagged)
        for protocol in (TCP, UDP):
            yield _accounting(_WITH_PORTS, match_on(eth_type=family, ip_proto=protocol))
            later = match_on(eth_type=family, ip_proto=protocol, ip_frag=(_LATER_FRAGMENT, _LATER_FRAGMENT))
            yield _accounting(_FRAGMENT, later, background)


def _accounting(priority: int, match: Match, metadata: Masked | None = None) -> FlowRule:
    return FlowRule(
        Table.COMPLETED,
        priority,
        match,
        write_metadata=metadata,
        goto=Table.MAP,
        cookie=cookie(Table.COMPLETED),
    )


# ── map ────────────────────────────────────────────────────────────────────────────────────────


def map_rule(port: int, code: int, queue: int, *, priority_tag: bool = True) -> FlowRule:
    """Return the rule that sends the packets of one tag to one queue of a port.

    `set_queue` is for hardware and for the kernel datapath. The userspace datapath ignores it, so the rule can
    also push the queue as 802.1p priority. The port program reads that priority, chooses the queue and removes
    the 802.1Q header.
    """
    tagging = (PushVlan(), SetPriority(queue)) if priority_tag else ()
    return FlowRule(
        Table.MAP,
        10,
        match_on(metadata=(port_and_code(port, code), PORT_MASK | CODE_MASK)),
        (SetQueue(queue), *tagging, Output(port_number(port))),
        cookie=cookie(Table.MAP, port, code),
    )


def _watching_rule(port: int, code: int) -> FlowRule:
    """Return the rule of a port at which the policy does not act: it counts, and chooses no queue."""
    return replace(map_rule(port, code, 0), actions=(Output(port_number(port)),))


def map_rules(queue_maps: Mapping[int, QueueMap | None], *, priority_tags: bool = True) -> Iterator[FlowRule]:
    """Yield port × tag → queue, for {port number: queue map}; None where the policy does not act.

    Packets without a DSCP (ARP) use queue 0.
    """
    yield FlowRule(Table.MAP, _MISS, (), cookie=cookie(Table.MAP))
    for port, queue_of in queue_maps.items():
        if queue_of is None:
            yield from (_watching_rule(port, code) for code in range(NOT_IP + 1))
            continue
        for code, queue in ((NOT_IP, 0), *enumerate(queue_of)):
            yield map_rule(port, code, queue, priority_tag=priority_tags)


def vlan_map_rules(ports: Iterable[int]) -> Iterator[FlowRule]:
    """Yield the rules that send frames of the operator's VLANs out. The port program chooses their queue."""
    yield from (_watching_rule(port, VLAN) for port in ports)


# ── A whole switch ─────────────────────────────────────────────────────────────────────────────


def learning_ports(topology: Topology, switch: str) -> tuple[int, ...]:
    """Return the edge ports whose hosts the switch learns."""
    return tuple(p.number for p in topology.ports_of[switch] if p.edge) if topology.learns else ()


def switch_rules(
    topology: Topology,
    switch: str,
    queue_maps: Mapping[int, QueueMap | None],
    reserved: Iterable[int] = (),
) -> SwitchRules:
    """Return all groups and rules of a switch, for {port number: queue map} of all its ports.

    `reserved`: the DSCPs that belong to others.
    """
    reserved = tuple(reserved)
    ports = topology.ports_of[switch]
    forwarding = forwarding_rules(topology, switch)
    group_of = ingress_groups(ports)
    hosts_at = {port.number: group_of[port.number] for port in ports if port.edge and not port.uplink}
    flows = (
        *edge_rules(learning_ports(topology, switch)),
        *((lldp_rule(),) if topology.learns else ()),
        *ingress_rules(hosts_at, (port.number for port in ports if port.uplink)),
        *forwarding.flows,
        *completed_rules(),
        *ends_rules((port.number for port in ports), sorted(set(group_of.values()))),
        *unaccountable_rules(reserved),
        *map_rules(queue_maps, priority_tags=topology.switch_by_name[switch].priority_tags),
        *((vlan_rule(), *vlan_map_rules(queue_maps)) if keeps_vlans(topology, switch) else ()),
    )
    return SwitchRules(forwarding.groups, flows)
