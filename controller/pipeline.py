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

In a network whose ports name VLANs, each frame has an 802.1Q header from `edge` to `map`: its own, or one that `edge`
has pushed. `forward` goes by VLAN and address. Where a frame leaves without header, `forward` takes it off, or sets its
VLAN to 0 if `map` writes the queue into it: the port program removes a header of VLAN 0.

Pure: `openflow/` translates the rules into messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from itertools import chain, permutations
from typing import TypeAlias

from sluice.controller import rules, tables
from sluice.controller.rules import Bucket, FlowRule, GroupRule, Masked, Match, MatchValue, SwitchRules
from sluice.controller.tables import CODE_MASK, FAMILIES, NOT_IP, VLAN, Table, cookie, match_on
from sluice.policy import tags
from sluice.policy.network.graph import TRUNKS, Port, Topology, Unknown, ingress_groups
from sluice.policy.network.vlans import VlanMode
from sluice.policy.schema.desired import QueueMap

_FIN = 0x001
_ANY_VLAN = (tables.VLAN_PRESENT, tables.VLAN_PRESENT)

# ── edge ───────────────────────────────────────────────────────────────────────────────────────

_NEIGHBOUR_DISCOVERY = (135, 136)
"""Types of ICMPv6: neighbour solicitation and advertisement."""
_ARP, _LLDP = 0x0806, 0x88CC


def edge_rules(learning: Iterable[int] = (), *, vlans: bool = False) -> Iterator[FlowRule]:
    """Yield the rules that learn who sends from these edge ports. All packets go on to the table `ingress`.

    `vlans`: the frames have the headers of their VLANs.
    """
    yield FlowRule(Table.EDGE, 0, (), goto=Table.INGRESS, cookie=cookie(Table.EDGE))
    for port in learning:
        yield from sender_rules(port, vlans=vlans)


def sender_rules(port: int, *, vlans: bool = False) -> Iterator[FlowRule]:
    """Yield the rules that learn who sends from a port. ARP and neighbour discovery also show the sender's address."""
    sender = learn_sender(port, vlans=vlans)
    by_arp, by_neighbour = (replace(sender, source=s) for s in (rules.Source.ARP, rules.Source.NEIGHBOUR))
    yield sender_rule(port, 2, sender)
    yield sender_rule(port, 30, sender, by_arp, eth_type=_ARP)
    for kind in _NEIGHBOUR_DISCOVERY:
        of_kind = {"eth_type": FAMILIES[1], "ip_proto": tables.ICMPV6, "icmpv6_type": kind}
        yield sender_rule(port, 30, sender, by_neighbour, **of_kind)


def learn_sender(port: int, *, vlans: bool = False) -> rules.LearnHost:
    """Return the action that learns who sends from a port."""
    return rules.LearnHost(port, rules.Source.ETHERNET, vlans=vlans)


def sender_rule(port: int, priority: int, *actions: rules.LearnHost, **fields: MatchValue) -> FlowRule:
    """Return a rule for packets that a port's host sends, with these fields. They go on to `ingress`."""
    match = match_on(in_port=tables.port_number(port), **fields)
    return FlowRule(Table.EDGE, priority, match, actions, goto=Table.INGRESS, cookie=cookie(Table.EDGE, port))


def lldp_rule() -> FlowRule:
    """Return the rule that sends the controller's own LLDP frames back to it."""
    match = match_on(eth_type=_LLDP)
    return FlowRule(Table.EDGE, 100, match, (rules.Output(tables.CONTROLLER),), cookie=cookie(Table.EDGE))


_REFUSED, _HEADER, _NO_HEADER = 50, 51, 52
"""Priorities above all others of the table but LLDP's."""


def admission_rules(ports: Iterable[Port]) -> Iterator[FlowRule]:
    """Yield the rules that drop the frames of VLANs that these ports do not carry, and give all others a header.

    An admitted frame begins at `edge` again.
    """
    fresh = {"metadata": (0, tables.ADMITTED)}
    yield FlowRule(Table.EDGE, _REFUSED, match_on(**fresh), cookie=cookie(Table.EDGE))
    admit = (rules.LoadMetadata(1, 1, tables.ADMITTED_BIT), rules.Resubmit(Table.EDGE))
    for port in ports:
        vlans, number = port.carried, cookie(Table.EDGE, port.number)
        at_port = fresh | {"in_port": tables.port_number(port.number)}
        native = (rules.SetVlan(vlans.native), *admit)
        cases: list[tuple[int, MatchValue, tuple[rules.Action, ...]]] = []
        if vlans.carries(vlans.native):
            cases += [(_NO_HEADER, 0, (rules.PushVlan(), *native)), (_NO_HEADER, tables.VLAN_PRESENT, native)]
        if vlans.is_open:
            cases.append((_HEADER, _ANY_VLAN, admit))
        elif vlans.mode != VlanMode.ACCESS:
            cases += [(_HEADER, tables.VLAN_PRESENT | vlan, admit) for vlan in sorted(vlans.named - {0})]
        for priority, vid, actions in cases:
            yield FlowRule(Table.EDGE, priority, match_on(**at_port, vlan_vid=vid), actions, cookie=number)


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
    return _classify(_VLAN, match_on(vlan_vid=_ANY_VLAN), VLAN)


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
"""The first two exist for each VLAN, and the select groups follow."""
_Exit: TypeAlias = tuple[int, tuple[rules.Action, ...]]
"""An egress port, and the actions that prepare the header of the frame for it."""
_Exits: TypeAlias = tuple[_Exit, ...]
"""Ports of which a frame takes one: equal-cost ports, or those of a bond."""
_MULTICAST = ("01:00:00:00:00:00", "01:00:00:00:00:00")


def forwarding_rules(topology: Topology, switch: str, acting: Collection[int] = frozenset()) -> SwitchRules:
    """Return the groups and rules that follow from the paths of the network, and with VLANs from where the policy acts.

    `acting`: numbers of the ports at which it does.
    """
    carrying = acting if PriorityTag.at(topology, switch) is PriorityTag.OWN else ()
    paths: dict[tuple[int | None, str], _Exits] = {}
    for host in topology.hosts:
        vlan, ports = host.vlan if topology.vlans else None, topology.next_ports(switch, host.name)
        paths[vlan, host.mac] = _exits(ports, vlan, carrying)
    tree = (topology.port_by_id[f"{switch}:{number}"] for number in topology.spanning_tree_ports()[switch])
    once = [members for port in tree if (members := topology.members(port))[0] is port]
    floods = {
        vlan: tuple(filter(None, (_exits(members, vlan, carrying) for members in once)))
        for vlan in (None, *topology.vlans)
    }
    choices = {exits for exits in (*paths.values(), *chain(*floods.values())) if len(exits) > 1}
    in_order = sorted(choices, key=lambda exits: [(port, str(header)) for port, header in exits])
    groups = {exits: FIRST_SELECT_GROUP + 2 * len(topology.vlans) + i for i, exits in enumerate(in_order)}
    flows = _forward_rules(topology, switch, paths, groups, floods)
    return SwitchRules(tuple(_group_rules(topology, switch, groups, floods)), tuple(flows))


def _exits(ports: Iterable[Port], vlan: int | None, carrying: Collection[int]) -> _Exits:
    """Return those of the ports that carry a VLAN, and what becomes of the header there.

    `vlan`: None is one that no port names. `carrying`: the ports at which rules write the queue into the header.
    """
    carried = [port for port in ports if port.carried.carries(vlan)]
    bare = {port.number for port in carried if port.carried.leaves_bare(vlan)}
    off = {number: (rules.SetVlan(0) if number in carrying else rules.PopVlan(),) for number in bare}
    return tuple((port.number, off.get(port.number, ())) for port in carried)


def _forward_rules(
    topology: Topology,
    switch: str,
    paths: Mapping[tuple[int | None, str], _Exits],
    groups: Mapping[_Exits, int],
    floods: Iterable[int | None],
) -> Iterator[FlowRule]:
    """Yield the rules that choose the egress port by destination. `paths`: VLAN and MAC address → equal-cost ports.

    A host that cannot be reached has a rule that drops its packets and counts them. The miss rules are for addresses
    that the topology lacks.
    """
    table, number = Table.FORWARD, cookie(Table.FORWARD)
    for i, vlan in enumerate(floods):
        flood, unknown = (rules.ToGroup(group + 2 * i) for group in (FLOOD_GROUP, UNKNOWN_GROUP))
        of_vlan = _of_vlan(vlan)
        above = 2 * bool(of_vlan)
        of_unknown: dict[str, tuple[rules.Action, ...]] = {
            Unknown.FLOOD: (unknown,),
            Unknown.NORMAL: (rules.Output(tables.NORMAL),),
        }
        yield FlowRule(table, above, match_on(**of_vlan), of_unknown.get(topology.unknown, ()), cookie=number)
        yield FlowRule(table, 10 + above, match_on(eth_dst=_MULTICAST, **of_vlan), (flood,), cookie=number)
    if keeps_vlans(topology, switch):
        in_vlan = match_on(eth_dst=_MULTICAST, metadata=(tables.port_and_code(0, VLAN), CODE_MASK))
        yield FlowRule(table, 11, in_vlan, (rules.ToGroup(UNKNOWN_GROUP),), cookie=number)
    for (vlan, mac), exits in paths.items():
        match = match_on(eth_dst=mac, **_of_vlan(vlan))
        if len(exits) == 1:
            ((port, header),) = exits
            towards, number_of_port = (port, tables.PORT_MASK), cookie(table, port)
            yield FlowRule(table, 20, match, header, towards, Table.COMPLETED, number_of_port)
        else:
            actions = (rules.ToGroup(groups[exits]),) if exits else ()
            yield FlowRule(table, 20, match, actions, cookie=number)


def _of_vlan(vlan: int | None) -> dict[str, MatchValue]:
    return {} if vlan is None else {"vlan_vid": tables.VLAN_PRESENT | vlan}


def keeps_vlans(topology: Topology, switch: str) -> bool:
    """Whether frames with VLANs have rules of their own, because no port names VLANs. A testbed has none at all."""
    return topology.learns and topology.switch_by_name[switch].priority_tags and not topology.vlans


def _group_rules(
    topology: Topology,
    switch: str,
    groups: Mapping[_Exits, int],
    floods: Mapping[int | None, tuple[_Exits, ...]],
) -> Iterator[GroupRule]:
    """Yield the flood groups, and one select group for each set of equal-cost ports and each bond.

    Broadcasts use queue 0. Packets to unknown addresses keep the queue of their tag, and frames of VLANs their VLAN.

    Open vSwitch chooses the bucket by a hash of the addresses and, for TCP, of the ports. The DSCP
    is not part of the hash, so a flow keeps its path while its tag changes. OpenFlow drops an
    output to the ingress port, so a flooded packet never returns to the port that it came from.
    """
    for i, flood in enumerate(floods.values()):
        in_queue_0 = tuple(Bucket(_copy_to(exits, groups, in_queue_0=True)) for exits in flood)
        yield GroupRule(FLOOD_GROUP + 2 * i, rules.GroupKind.ALL, in_queue_0)
        if topology.unknown == Unknown.FLOOD or keeps_vlans(topology, switch):
            in_own = tuple(Bucket(_copy_to(exits, groups, in_queue_0=False)) for exits in flood)
            yield GroupRule(UNKNOWN_GROUP + 2 * i, rules.GroupKind.ALL, in_own)
    for exits, group in groups.items():
        buckets = tuple(Bucket(_forward_to(leaves), watch_port=leaves[0]) for leaves in exits)
        yield GroupRule(group, rules.GroupKind.SELECT, buckets)


def _forward_to(leaves: _Exit) -> tuple[rules.Action, ...]:
    port, header = leaves
    return (*header, rules.LoadMetadata(port, tables.PORT_BITS), rules.Resubmit(Table.COMPLETED))


def _copy_to(exits: _Exits, groups: Mapping[_Exits, int], *, in_queue_0: bool) -> tuple[rules.Action, ...]:
    """Return the actions that send a copy to a port, or to one port of a bond."""
    (port, header), bond = exits[0], groups.get(exits)
    code = rules.LoadMetadata(tables.port_and_code(port, NOT_IP), tables.METADATA_BITS)
    if bond is not None:
        return (code, rules.ToGroup(bond)) if in_queue_0 else (rules.ToGroup(bond),)
    return (*header, code, rules.Resubmit(Table.MAP)) if in_queue_0 else _forward_to(exits[0])


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


def unaccountable_rules(reserved: Iterable[int] = (), *, bonds: bool = False) -> Iterator[FlowRule]:
    """Yield the rules that take the tag of packets whose flow no counter can name: they count as background.

    These are IP packets of protocols other than TCP and UDP, and later fragments. Untagged packets and those with a
    `reserved` DSCP keep their queue, and so do frames of the operator's VLANs and, with `bonds`, broadcasts to them.
    """
    background = (tags.BACKGROUND << tables.PORT_BITS, CODE_MASK)
    yield _to_map(_OTHERS, match_on(metadata=(VLAN << tables.PORT_BITS, CODE_MASK)))
    for code in (*reserved, *((NOT_IP,) if bonds else ())):
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


class PriorityTag(IntEnum):
    """How rules name the queue in an 802.1p priority, beside `set_queue`."""

    NONE = 0  # not at all: the datapath obeys `set_queue`
    PUSHED = 1  # in a header that they push
    OWN = 2  # in the header that each frame has, in a network whose ports name VLANs

    @classmethod
    def at(cls, topology: Topology, switch: str) -> PriorityTag:
        if not topology.switch_by_name[switch].priority_tags:
            return cls.NONE
        return cls.OWN if topology.vlans else cls.PUSHED


def map_rule(port: int, code: int, queue: int, *, priority_tag: int = PriorityTag.PUSHED) -> FlowRule:
    """Return the rule that sends the packets of one tag to one queue of a port.

    `set_queue` is for hardware and for the kernel datapath. The userspace datapath ignores it, so the rule can
    also push the queue as 802.1p priority. The port program reads that priority, chooses the queue and removes
    the 802.1Q header.
    """
    push = (rules.PushVlan(),) if priority_tag == PriorityTag.PUSHED else ()
    tagging = (*push, rules.SetPriority(queue)) if priority_tag else ()
    # Open vSwitch only lets a rule change a header that its match requires.
    header = {"vlan_vid": _ANY_VLAN} if priority_tag == PriorityTag.OWN else {}
    return FlowRule(
        Table.MAP,
        10,
        match_on(metadata=(tables.port_and_code(port, code), tables.PORT_MASK | CODE_MASK), **header),
        (rules.SetQueue(queue), *tagging, rules.Output(tables.port_number(port))),
        cookie=cookie(Table.MAP, port, code),
    )


def _watching_rule(port: int, code: int) -> FlowRule:
    """Return the rule of a port at which the policy does not act: it counts, and chooses no queue."""
    return replace(map_rule(port, code, 0), actions=(rules.Output(tables.port_number(port)),))


def map_rules(
    queue_maps: Mapping[int, QueueMap | None], *, priority_tags: int = PriorityTag.PUSHED
) -> Iterator[FlowRule]:
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


def no_return_rules(bonds: Iterable[tuple[Port, ...]]) -> Iterator[FlowRule]:
    """Yield the rules that drop what would return to another port of the bond by which it came."""
    for members in bonds:
        for came, leaves in permutations(members, 2):
            match = match_on(
                in_port=tables.port_number(came.number), metadata=(leaves.number, tables.PORT_MASK)
            )
            yield FlowRule(Table.MAP, 20, match, cookie=cookie(Table.MAP))


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
    reserved, priority_tags = tuple(reserved), PriorityTag.at(topology, switch)
    ports = topology.ports_of[switch]
    acting = {port for port, queue_map in queue_maps.items() if queue_map is not None}
    forwarding = forwarding_rules(topology, switch, acting)
    bonds = [m for port in ports if len(m := topology.members(port)) > 1 and m[0] is port]
    group_of = ingress_groups(ports)
    hosts_at = {port.number: group_of[port.number] for port in ports if port.edge and not port.uplink}
    flows = (
        *edge_rules(learning_ports(topology, switch), vlans=bool(topology.vlans)),
        *(admission_rules(ports) if topology.vlans else ()),
        *((lldp_rule(),) if topology.learns else ()),
        *ingress_rules(hosts_at, (port.number for port in ports if port.uplink)),
        *forwarding.flows,
        *completed_rules(),
        *ends_rules((port.number for port in ports), sorted(set(group_of.values()))),
        *unaccountable_rules(reserved, bonds=bool(bonds)),
        *map_rules(queue_maps, priority_tags=priority_tags),
        *no_return_rules(bonds),
        *((vlan_rule(), *vlan_map_rules(queue_maps)) if keeps_vlans(topology, switch) else ()),
    )
    return SwitchRules(forwarding.groups, flows)
