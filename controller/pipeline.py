# SPDX-License-Identifier: Apache-2.0
"""The switch pipeline as data: its tables, and every rule of a switch.

    conduct ──▶ ingress ──▶ forward ──▶ completed ──▶ map ──▶ out
    demote     tag into    port into   count FIN     queue, 802.1p
    │ learn    metadata    metadata    × tag × port  priority, output
    └──▶ witness: count flow × tag

The pipeline's metadata carries the results of earlier tables: the egress port in bits 0–15, the
tag in bits 16–23. Therefore IPv4 and IPv6 share the map table, and a threshold change modifies one
rule for each tag and port.

Pure: `openflow/` translates the rules into messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

from controller.cookies import NO_CODE, NOT_IP, cookie
from controller.rules import (
    Bucket,
    FlowRule,
    GroupKind,
    GroupRule,
    LearnFlow,
    LoadMetadata,
    Match,
    MatchValue,
    Output,
    PushVlan,
    Resubmit,
    SetPriority,
    SetQueue,
    SetTag,
    SwitchRules,
    ToGroup,
)
from policy import tags
from policy.graph import Port, Topology
from policy.queue_map import QueueMap
from policy.sanctions import Treatment


class Table(IntEnum):
    CONDUCT = 0
    INGRESS = 1
    FORWARD = 2
    COMPLETED = 3
    MAP = 4
    WITNESS = 5


@dataclass(frozen=True)
class TableSpec:
    """One table as the documentation lists it."""

    table: Table
    match: tuple[str, ...]
    """OpenFlow fields that its rules may match."""
    purpose: str
    miss: str
    """What happens to a packet that no rule matches."""


PIPELINE: tuple[TableSpec, ...] = (
    TableSpec(
        Table.CONDUCT,
        ("in_port", "eth_type", "ip_proto"),
        "edge ports that are watched: learn flows, count them in witness; demoted ones: tag 61 into the packet",
        "all others: ingress",
    ),
    TableSpec(
        Table.INGRESS,
        ("in_port", "eth_type", "ip_dscp"),
        "edge port × tag: count; tag into metadata",
        "not IP: forward",
    ),
    TableSpec(
        Table.FORWARD,
        ("eth_dst",),
        "destination → egress port into metadata; equal-cost ports by select group; broadcast on the spanning tree",
        "unknown destination: drop",
    ),
    TableSpec(
        Table.COMPLETED,
        ("metadata", "eth_type", "ip_proto", "tcp_flags"),
        "egress port × tag: count FIN",
        "not the end of a flow: map",
    ),
    TableSpec(
        Table.MAP,
        ("metadata",),
        "egress port × tag → set_queue, 802.1p priority, output",
        "port unknown: drop",
    ),
    TableSpec(
        Table.WITNESS,
        (),
        "learned from packets: edge port × 5-tuple × tag: count",
        "back to conduct",
    ),
)

FAMILIES = (0x0800, 0x86DD)
"""EtherTypes of IPv4 and IPv6. A family is an index into this tuple."""
_TCP, _UDP = 6, 17
_FIN = 0x001


# ── Metadata ───────────────────────────────────────────────────────────────────────────────────

_PORT_BITS = 16
_PORT_MASK = (1 << _PORT_BITS) - 1
_CODE_MASK = 0xFF << _PORT_BITS
_BITS = 24


def _port_and_code(port: int, code: int) -> int:
    return code << _PORT_BITS | port


def _match(**values: MatchValue) -> Match:
    return tuple(sorted(values.items()))


# ── conduct ────────────────────────────────────────────────────────────────────────────────────

Treatments: TypeAlias = Mapping[int, Treatment]
"""Edge port number → treatment. Ports that are missing are free."""


def conduct_rules(treatments: Treatments) -> Iterator[FlowRule]:
    """Yield the rules of watched and demoted ports: at most six for each port."""
    yield FlowRule(Table.CONDUCT, 0, (), goto=Table.INGRESS, cookie=cookie(Table.CONDUCT))
    for port, treatment in treatments.items():
        if treatment is not Treatment.FREE:
            yield from _treatment_rules(port, demoted=treatment is Treatment.DEMOTED)


def _treatment_rules(port: int, *, demoted: bool) -> Iterator[FlowRule]:
    # `witness` counts the flow before SetTag, because the count must have the tag that the host
    # has written.
    sanction = (SetTag(tags.BACKGROUND),) if demoted else ()
    for index, family in enumerate(FAMILIES):
        of_family = {"in_port": port, "eth_type": family}
        for protocol in (_TCP, _UDP):
            actions = (LearnFlow(port, index, protocol), Resubmit(Table.WITNESS), *sanction)
            match = _match(**of_family, ip_proto=protocol)
            number = cookie(Table.CONDUCT, port, protocol, index)
            yield FlowRule(Table.CONDUCT, 20, match, actions, goto=Table.INGRESS, cookie=number)
        if demoted:
            number = cookie(Table.CONDUCT, port, NO_CODE, index)
            match = _match(**of_family)
            yield FlowRule(Table.CONDUCT, 10, match, sanction, goto=Table.INGRESS, cookie=number)


# ── ingress ────────────────────────────────────────────────────────────────────────────────────

_MISS, _BY_FAMILY, _BY_TAG, _BY_PORT_FAMILY, _BY_PORT_TAG = 0, 10, 20, 30, 40


def _classify(priority: int, match: Match, code: int, port: int = 0, family: int = 0) -> FlowRule:
    return FlowRule(
        Table.INGRESS,
        priority,
        match,
        write_metadata=(code << _PORT_BITS, _CODE_MASK),
        goto=Table.FORWARD,
        cookie=cookie(Table.INGRESS, port, code, family),
    )


def ingress_rules(edge_ports: Iterable[int]) -> Iterator[FlowRule]:
    """Yield the rules that load the tag into metadata and, at edge ports, count packets by tag.

    DSCP 0 and the unassigned values 62 and 63 have no rules. The rule of the address family treats
    them as untagged.
    """
    yield _classify(_MISS, (), NOT_IP)
    for index, family in enumerate(FAMILIES):
        yield _classify(_BY_FAMILY, _match(eth_type=family), tags.UNTAGGED, family=index)
        for tag in range(1, tags.TAG_COUNT):
            yield _classify(_BY_TAG, _match(eth_type=family, ip_dscp=tag), tag, family=index)
    for port in edge_ports:
        yield from _edge_port_rules(port)


def _edge_port_rules(port: int) -> Iterator[FlowRule]:
    for index, family in enumerate(FAMILIES):
        of_family = _match(eth_type=family, in_port=port)
        yield _classify(_BY_PORT_FAMILY, of_family, tags.UNTAGGED, port, index)
        for tag in range(1, tags.TAG_COUNT):
            match = _match(eth_type=family, in_port=port, ip_dscp=tag)
            yield _classify(_BY_PORT_TAG, match, tag, port, index)


# ── forward ────────────────────────────────────────────────────────────────────────────────────

FLOOD_GROUP = 1
FIRST_SELECT_GROUP = 2
_MULTICAST = ("01:00:00:00:00:00", "01:00:00:00:00:00")


def _equal_cost_ports(topology: Topology, switch: str) -> dict[str, tuple[int, ...]]:
    """Return the egress port numbers towards each host, by MAC address."""
    return {
        host.mac: tuple(port.number for port in topology.next_ports(switch, host.name))
        for host in topology.hosts
    }


def _select_group_ids(paths: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    several = sorted({ports for ports in paths if len(ports) > 1})
    return {ports: FIRST_SELECT_GROUP + i for i, ports in enumerate(several)}


def forward_rules(topology: Topology, switch: str) -> Iterator[FlowRule]:
    """Yield the rules that choose the egress port by destination.

    A host that cannot be reached has no rule: the miss rule drops its packets and counts them.
    """
    paths = _equal_cost_ports(topology, switch)
    groups = _select_group_ids(paths.values())
    table = Table.FORWARD
    yield FlowRule(table, _MISS, (), cookie=cookie(table))
    yield FlowRule(table, 10, _match(eth_dst=_MULTICAST), (ToGroup(FLOOD_GROUP),), cookie=cookie(table))
    for mac, ports in paths.items():
        match = _match(eth_dst=mac)
        if len(ports) == 1:
            towards = (ports[0], _PORT_MASK)
            yield FlowRule(
                table, 20, match, write_metadata=towards, goto=Table.COMPLETED, cookie=cookie(table, ports[0])
            )
        elif ports:
            yield FlowRule(table, 20, match, (ToGroup(groups[ports]),), cookie=cookie(table))


def group_rules(topology: Topology, switch: str) -> tuple[GroupRule, ...]:
    """Return the flood group and one select group for each set of equal-cost ports.

    Open vSwitch chooses the bucket by a hash of the addresses and, for TCP, of the ports. The DSCP
    is not part of the hash, so a flow keeps its path while its tag changes. OpenFlow drops an
    output to the ingress port, so a flooded packet never returns to the port that it came from.
    """
    flood = tuple(
        Bucket((LoadMetadata(_port_and_code(port, NOT_IP), _BITS), Resubmit(Table.MAP)))
        for port in topology.spanning_tree_ports()[switch]
    )
    groups = _select_group_ids(_equal_cost_ports(topology, switch).values())
    return (
        GroupRule(FLOOD_GROUP, GroupKind.ALL, flood),
        *(GroupRule(group, GroupKind.SELECT, _select_buckets(ports)) for ports, group in groups.items()),
    )


def _select_buckets(ports: Iterable[int]) -> tuple[Bucket, ...]:
    return tuple(
        Bucket((LoadMetadata(port, _PORT_BITS), Resubmit(Table.COMPLETED)), watch_port=port) for port in ports
    )


# ── completed ──────────────────────────────────────────────────────────────────────────────────


def completed_rules(ports: Iterable[int]) -> Iterator[FlowRule]:
    """Yield the rules that count FIN packets by egress port and tag.

    The counters are the histogram of completed flow sizes. Only tags of attained service have a
    rule, because no other tag shows how much the flow has sent.
    """
    yield FlowRule(Table.COMPLETED, _MISS, (), goto=Table.MAP, cookie=cookie(Table.COMPLETED))
    for port in ports:
        for tag in range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1):
            for index, family in enumerate(FAMILIES):
                yield _fin_rule(port, tag, index, family)


def _fin_rule(port: int, tag: int, index: int, family: int) -> FlowRule:
    match = _match(
        metadata=(_port_and_code(port, tag), _PORT_MASK | _CODE_MASK),
        eth_type=family,
        ip_proto=_TCP,
        tcp_flags=(_FIN, _FIN),
    )
    code = cookie(Table.COMPLETED, port, tag, index)
    return FlowRule(Table.COMPLETED, 10, match, goto=Table.MAP, cookie=code)


# ── map ────────────────────────────────────────────────────────────────────────────────────────


def map_rule(port: int, code: int, queue: int) -> FlowRule:
    """Return the rule that sends the packets of one tag to one queue of a port.

    The rule names the queue twice. `set_queue` is for hardware and for the kernel datapath. The
    userspace datapath ignores it, so the rule also pushes the queue as 802.1p priority. The port
    program reads that priority, chooses the queue and removes the 802.1Q header.
    """
    return FlowRule(
        Table.MAP,
        10,
        _match(metadata=(_port_and_code(port, code), _PORT_MASK | _CODE_MASK)),
        (SetQueue(queue), PushVlan(), SetPriority(queue), Output(port)),
        cookie=cookie(Table.MAP, port, code),
    )


def map_rules(queue_maps: Mapping[int, QueueMap]) -> Iterator[FlowRule]:
    """Yield port × tag → queue, for {port number: queue map}.

    Packets without a DSCP (ARP) use queue 0.
    """
    yield FlowRule(Table.MAP, _MISS, (), cookie=cookie(Table.MAP))
    for port, queue_of in queue_maps.items():
        yield map_rule(port, NOT_IP, 0)
        for tag, queue in enumerate(queue_of):
            yield map_rule(port, tag, queue)


# ── A whole switch ─────────────────────────────────────────────────────────────────────────────


def _edge(ports: Iterable[Port]) -> tuple[int, ...]:
    return tuple(port.number for port in ports if port.edge)


def switch_rules(
    topology: Topology,
    switch: str,
    queue_maps: Mapping[int, QueueMap],
    treatments: Treatments = MappingProxyType({}),
) -> SwitchRules:
    """Return all groups and rules of a switch, for {port number: queue map} of all its ports."""
    ports = topology.ports_of[switch]
    flows = (
        *conduct_rules(treatments),
        *ingress_rules(_edge(ports)),
        *forward_rules(topology, switch),
        *completed_rules(port.number for port in ports),
        *map_rules(queue_maps),
    )
    return SwitchRules(group_rules(topology, switch), flows)
