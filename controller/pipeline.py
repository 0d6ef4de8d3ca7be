# SPDX-License-Identifier: Apache-2.0
"""The switch pipeline as data: its tables, and every rule of a switch.

    edge ──▶ ingress ──▶ forward ──▶ completed ──▶ map ──▶ out
    │ learn  tag, group  port into   │ FIN         queue, 802.1p
    │        → metadata  metadata    │             priority, output
    │                                └──▶ ends: count port × tag × group
    ├──▶ flows: count flow × tag, for an overlay (state.py)
    └──▶ hosts: remember sender × port

The egress port and the tag are in the metadata when a packet reaches `map`. Therefore IPv4 and IPv6
share that table, and a threshold change modifies one rule for each tag and port. The group of the ingress port is
there, too, so the ends of flows are counted by where they came from.

Pure: `openflow/` translates the rules into messages.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from sluice.controller import rules, tables
from sluice.controller.rules import Bucket, FlowRule, GroupRule, Masked, Match, MatchValue, SwitchRules
from sluice.controller.tables import CODE_MASK, FAMILIES, NOT_IP, VLAN, Table, cookie, match_on
from sluice.policy import tags
from sluice.policy.network.graph import TRUNKS, Topology, Unknown, ingress_groups
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
    yield sender_rule(port, 30, sender, rules.LearnHost(port, rules.Source.ARP), eth_type=_ARP)
    for kind in _NEIGHBOUR_DISCOVERY:
        of_kind = {"eth_type": FAMILIES[1], "ip_proto": tables.ICMPV6, "icmpv6_type": kind}
        yield sender_rule(port, 30, sender, rules.LearnHost(port, rules.Source.NEIGHBOUR), **of_kind)


def learn_sender(port: int) -> rules.LearnHost:
    """Return the action that learns who sends from a port."""
    return rules.LearnHost(port, rules.Source.ETHERNET)


def sender_rule(port: int, priority: int, *actions: rules.LearnHost, **fields: MatchValue) -> FlowRule:
    """Return a rule for packets that a port's host sends, with these fields. They go on to `ingress`."""
    match = match_on(in_port=tables.port_number(port), **fields)
    return FlowRule(Table.EDGE, priority, match, actions, goto=Table.INGRESS, cookie=cookie(Table.EDGE, port))


def lldp_rule() -> FlowRule:
    """Return the rule that sends the controller's own LLDP frames back to it."""
    match = match_on(eth_type=_LLDP)
    return FlowRule(Table.EDGE, 100, match, (rules.Output(tables.CONTROLLER),), cookie=cookie(Table.EDGE))


# ── ingress ────────────────────────────────────────────────────────────────────────────────────

_MISS, _BY_FAMILY, _BY_TAG, _BY_PORT_FAMILY, _BY_PORT_TAG, _UPLINK, _VLAN = 0, 10, 20, 30, 40, 50, 60


def _classify(
    priority: int, match: Match, code: int, port: int = 0, family: int = 0, group: int = TRUNKS
) -> FlowRule:
    return FlowRule(
        Table.INGRESS,
        priority,
        match,
        write_metadata=(tables.group_and_code(group, code), tables.GROUP_MASK | CODE_MASK),
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
            match = match_on(eth_type=family, in_port=tables.port_number(port))
            yield _classify(_UPLINK, match, tags.UNTAGGED, port, index)


def vlan_rule() -> FlowRule:
    """Return the rule for frames of the operator's VLANs. They keep their one tag (see `tables.VLAN`)."""
    return _classify(_VLAN, match_on(vlan_vid=(tables.VLAN_PRESENT, tables.VLAN_PRESENT)), VLAN)


def edge_port_rules(port: int, group: int) -> Iterator[FlowRule]:
    """Yield the rules that count an edge port's packets by tag. `group`: the port's group of ingress ports."""
    for index, family in enumerate(FAMILIES):
        of_family = {"eth_type": family, "in_port": tables.port_number(port)}
        yield _classify(_BY_PORT_FAMILY, match_on(**of_family), tags.UNTAGGED, port, index, group)
        for tag in range(1, tags.TAG_COUNT):
            match = match_on(**of_family, ip_dscp=tag)
            yield _classify(_BY_PORT_TAG, match, tag, port, index, group)


# ── forward ────────────────────────────────────────────────────────────────────────────────────
# These rules and the groups follow from the paths of the network alone, so they change apart from all other rules.

FLOOD_GROUP, UNKNOWN_GROUP, FIRST_SELECT_GROUP = (tables.GROUP_SPACE + i for i in (1, 2, 3))
_Ports: TypeAlias = tuple[int, ...]
_MULTICAST = ("01:00:00:00:00:00", "01:00:00:00:00:00")
_UNKNOWN_ACTIONS: dict[str, tuple[rules.Action, ...]] = {
    Unknown.FLOOD: (rules.ToGroup(UNKNOWN_GROUP),),
    Unknown.NORMAL: (rules.Output(tables.NORMAL),),
}


def forwarding_rules(topology: Topology, switch: str) -> SwitchRules:
    """Return the groups and rules that follow from the paths of the network."""
    next_ports = {host.mac: topology.next_ports(switch, host.name) for host in topology.hosts}
    paths = {mac: tuple(port.number for port in ports) for mac, ports in next_ports.items()}
    several = sorted({ports for ports in paths.values() if len(ports) > 1})
    groups = {ports: FIRST_SELECT_GROUP + i for i, ports in enumerate(several)}
    flows = _forward_rules(topology, switch, paths, groups)
    return SwitchRules(tuple(_group_rules(topology, switch, groups)), tuple(flows))


def _forward_rules(
    topology: Topology, switch: str, paths: Mapping[str, _Ports], groups: Mapping[_Ports, int]
) -> Iterator[FlowRule]:
    """Yield the rules that choose the egress port by destination. `paths`: MAC address → equal-cost ports.

    A host that cannot be reached has a rule that drops its packets and counts them. The miss rule is for addresses that
    the topology lacks.
    """
    table, number = Table.FORWARD, cookie(Table.FORWARD)
    flood, unknown = (rules.ToGroup(FLOOD_GROUP),), (rules.ToGroup(UNKNOWN_GROUP),)
    yield FlowRule(table, 0, (), _UNKNOWN_ACTIONS.get(topology.unknown, ()), cookie=number)
    yield FlowRule(table, 10, match_on(eth_dst=_MULTICAST), flood, cookie=number)
    if keeps_vlans(topology, switch):
        in_vlan = match_on(eth_dst=_MULTICAST, metadata=(tables.port_and_code(0, VLAN), CODE_MASK))
        yield FlowRule(table, 11, in_vlan, unknown, cookie=number)
    for mac, ports in paths.items():
        match = match_on(eth_dst=mac)
        if len(ports) == 1:
            towards, number_of_port = (ports[0], tables.PORT_MASK), cookie(table, ports[0])
            yield FlowRule(
                table, 20, match, write_metadata=towards, goto=Table.COMPLETED, cookie=number_of_port
            )
        else:
            actions = (rules.ToGroup(groups[ports]),) if ports else ()
            yield FlowRule(table, 20, match, actions, cookie=number)


def keeps_vlans(topology: Topology, switch: str) -> bool:
    """Whether frames of the operator's VLANs have rules of their own. A testbed has no such VLANs."""
    return topology.learns and topology.switch_by_name[switch].priority_tags


def _group_rules(topology: Topology, switch: str, groups: Mapping[_Ports, int]) -> Iterator[GroupRule]:
    """Yield the flood groups and one select group for each set of equal-cost ports.

    Broadcasts use queue 0. Packets to unknown addresses keep the queue of their tag, and frames of VLANs their VLAN.

    Open vSwitch chooses the bucket by a hash of the addresses and, for TCP, of the ports. The DSCP
    is not part of the hash, so a flow keeps its path while its tag changes. OpenFlow drops an
    output to the ingress port, so a flooded packet never returns to the port that it came from.
    """
    tree = topology.spanning_tree_ports()[switch]
    in_queue_0 = {
        port: rules.LoadMetadata(tables.port_and_code(port, NOT_IP), tables.METADATA_BITS) for port in tree
    }
    flood = tuple(Bucket((in_queue_0[port], rules.Resubmit(Table.MAP))) for port in tree)
    yield GroupRule(FLOOD_GROUP, rules.GroupKind.ALL, flood)
    if topology.unknown == Unknown.FLOOD or keeps_vlans(topology, switch):
        yield GroupRule(UNKNOWN_GROUP, rules.GroupKind.ALL, tuple(Bucket(_forward_to(port)) for port in tree))
    for ports, group in groups.items():
        buckets = tuple(Bucket(_forward_to(port), watch_port=port) for port in ports)
        yield GroupRule(group, rules.GroupKind.SELECT, buckets)


def _forward_to(port: int) -> tuple[rules.Action, ...]:
    return (rules.LoadMetadata(port, tables.PORT_BITS), rules.Resubmit(Table.COMPLETED))


# ── completed ──────────────────────────────────────────────────────────────────────────────────


def completed_rules() -> Iterator[FlowRule]:
    """Yield the rules that send FIN packets through the table `ends`."""
    yield _to_map(_MISS, ())
    for family in FAMILIES:
        match = match_on(eth_type=family, ip_proto=tables.TCP, tcp_flags=(_FIN, _FIN))
        yield replace(_to_map(10, match), actions=(rules.Resubmit(Table.ENDS),))


def ends_rules(ports: Iterable[int], groups: Collection[int]) -> Iterator[FlowRule]:
    """Yield the rules that count FIN packets by egress port, group of ingress ports and tag.

    The counters are the histogram of completed flow sizes. Only tags of attained service have a
    rule, because no other tag shows how much the flow has sent.
    """
    mask = tables.PORT_MASK | CODE_MASK | tables.GROUP_MASK
    for port in ports:
        for group in groups:
            for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1):
                match = match_on(metadata=(tables.group_and_code(group, tag) | port, mask))
                yield FlowRule(Table.ENDS, 10, match, cookie=cookie(Table.ENDS, port, tag, group))


_PLAIN, _UNTAGGED, _WITH_PORTS, _FRAGMENT, _OTHERS = 1, 2, 3, 4, 5
_LATER_FRAGMENT = 2
"""Open vSwitch's ip_frag: the packet is a fragment and not the first one."""


def unaccountable_rules(reserved: Iterable[int] = ()) -> Iterator[FlowRule]:
    """Yield the rules that take the tag of packets whose flow no counter can name: they count as background.

    These are IP packets of protocols other than TCP and UDP, and later fragments. Untagged packets and those with a
    `reserved` DSCP keep their queue, and so do frames of the operator's VLANs.
    """
    background = (tags.BACKGROUND << tables.PORT_BITS, CODE_MASK)
    yield _to_map(_OTHERS, match_on(metadata=(VLAN << tables.PORT_BITS, CODE_MASK)))
    for code in reserved:
        yield _to_map(_OTHERS, match_on(metadata=(code << tables.PORT_BITS, CODE_MASK)))
    for family in FAMILIES:
        yield _to_map(_PLAIN, match_on(eth_type=family), background)
        untagged = match_on(eth_type=family, metadata=(tags.UNTAGGED << tables.PORT_BITS, CODE_MASK))
        yield _to_map(_UNTAGGED, untagged)
        for protocol in (tables.TCP, tables.UDP):
            yield _to_map(_WITH_PORTS, match_on(eth_type=family, ip_proto=protocol))
            later = match_on(eth_type=family, ip_proto=protocol, ip_frag=(_LATER_FRAGMENT, _LATER_FRAGMENT))
            yield _to_map(_FRAGMENT, later, background)


def _to_map(priority: int, match: Match, metadata: Masked | None = None) -> FlowRule:
    number = cookie(Table.COMPLETED)
    return FlowRule(Table.COMPLETED, priority, match, (), metadata, Table.MAP, number)


# ── map ────────────────────────────────────────────────────────────────────────────────────────


def map_rule(port: int, code: int, queue: int, *, priority_tag: bool = True) -> FlowRule:
    """Return the rule that sends the packets of one tag to one queue of a port.

    `set_queue` is for hardware and for the kernel datapath. The userspace datapath ignores it, so the rule can
    also push the queue as 802.1p priority. The port program reads that priority, chooses the queue and removes
    the 802.1Q header.
    """
    tagging = (rules.PushVlan(), rules.SetPriority(queue)) if priority_tag else ()
    return FlowRule(
        Table.MAP,
        10,
        match_on(metadata=(tables.port_and_code(port, code), tables.PORT_MASK | CODE_MASK)),
        (rules.SetQueue(queue), *tagging, rules.Output(tables.port_number(port))),
        cookie=cookie(Table.MAP, port, code),
    )


def _watching_rule(port: int, code: int) -> FlowRule:
    """Return the rule of a port at which the policy does not act: it counts, and chooses no queue."""
    return replace(map_rule(port, code, 0), actions=(rules.Output(tables.port_number(port)),))


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


def bridging_rules() -> SwitchRules:
    """Return the rule of a switch that keeps its own forwarding. Open vSwitch then keeps its VLANs and bonds."""
    normal = (rules.Output(tables.NORMAL),)
    return SwitchRules(flows=(FlowRule(Table.EDGE, _MISS, (), normal, cookie=cookie(Table.EDGE)),))


def switch_rules(
    topology: Topology, switch: str, queue_maps: Mapping[int, QueueMap | None], reserved: Iterable[int] = ()
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
