# SPDX-License-Identifier: Apache-2.0
"""The switch pipeline as data: its tables, and every rule of a switch as a function of topology and queue maps.

    conduct ──▶ ingress ──▶ forward ──▶ completed ──▶ map ──▶ out
    demote     tag into    port into   count FIN     queue, 802.1p
    │ learn    metadata    metadata    × tag × port  priority, output
    └──▶ witness: count flow × tag

The pipeline's metadata carries what the tables before found out: bits 0–15 the egress port, bits 16–23 the tag. So IPv4
and IPv6 meet after the first table, and a threshold change is one rule for each tag and port whose queue changes.

Pure data in, pure data out; `controller/openflow.py` puts it on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
    """What a table matches on and what becomes of a packet that nothing there matches."""

    table: Table
    match: tuple[str, ...]
    purpose: str
    miss: str


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

# ── Rules ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Masked: TypeAlias = tuple[int, int]
MatchValue: TypeAlias = int | str | Masked | tuple[str, str]
Match: TypeAlias = tuple[tuple[str, MatchValue], ...]
"""(OpenFlow field name, value or (value, mask)) by field name."""


@dataclass(frozen=True)
class SetQueue:
    queue: int


@dataclass(frozen=True)
class PushVlan:
    """Push an 802.1Q header; its priority is set next, and the port program takes it off again."""


@dataclass(frozen=True)
class SetPriority:
    pcp: int
    """802.1p priority code point."""


@dataclass(frozen=True)
class Output:
    port: int


@dataclass(frozen=True)
class ToGroup:
    group: int


@dataclass(frozen=True)
class LoadMetadata:
    """Write `value` into metadata bits 0 … bits-1."""

    value: int
    bits: int


@dataclass(frozen=True)
class Resubmit:
    """Look the packet up in a table and come back (Open vSwitch extension: a bucket cannot `goto`)."""

    table: int


@dataclass(frozen=True)
class SetTag:
    """Write a tag into the packet's DSCP."""

    tag: int


@dataclass(frozen=True)
class LearnFlow:
    """Add a rule to `witness` that counts the packet's flow under its tag (Open vSwitch extension: learn)."""

    port: int
    family: int
    """Index: 0 is IPv4, 1 IPv6."""
    protocol: int
    """TCP or UDP."""


@dataclass(frozen=True)
class Foreign:
    """An action or instruction that no rule of ours has; its text is for the log."""

    text: str


Action: TypeAlias = (
    SetQueue
    | PushVlan
    | SetPriority
    | Output
    | ToGroup
    | LoadMetadata
    | Resubmit
    | SetTag
    | LearnFlow
    | Foreign
)

RuleKey: TypeAlias = tuple[int, int, Match]
"""(table, priority, match): what identifies a rule on the switch."""


@dataclass(frozen=True)
class FlowRule:
    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    write_metadata: Masked | None = None
    """(value, mask)."""
    goto: int | None = None
    """The next table; None ends the pipeline."""
    cookie: int = 0

    @property
    def key(self) -> RuleKey:
        return (self.table, self.priority, self.match)


class GroupKind(IntEnum):
    ALL = 0
    SELECT = 1


@dataclass(frozen=True)
class Bucket:
    actions: tuple[Action, ...]
    watch_port: int | None = None
    """A select group skips the bucket while this port is down."""


@dataclass(frozen=True)
class GroupRule:
    group: int
    kind: GroupKind
    buckets: tuple[Bucket, ...]


# ── Cookies ────────────────────────────────────────────────────────────────────────────────────────────────────────
#
#   63      48 47    40 39  32 31        16 15   8 7    0
#  ┌──────────┬────────┬──────┬────────────┬──────┬──────┐
#  │  SPACE   │ table  │  0   │    port    │family│ code │
#  └──────────┴────────┴──────┴────────────┴──────┴──────┘
#
# The code is the tag, or NOT_IP. A counter's cookie says what it counted; a masked request asks for one table's.

COOKIE_SPACE = 0x51CE
COOKIE_SPACE_MASK = 0xFFFF << 48
COOKIE_TABLE_MASK = COOKIE_SPACE_MASK | 0xFF << 40
NOT_IP = tags.TAG_COUNT
"""Code in metadata and cookies of packets that have no DSCP; they take queue 0."""
NO_CODE = 0xFF
"""Cookie code of the rules that are about no tag."""

FAMILIES = (0x0800, 0x86DD)
"""EtherTypes of IPv4 and IPv6."""
_TCP, _UDP = 6, 17
_FIN = 0x001


def cookie(table: int, port: int = 0, code: int = NO_CODE, family: int = 0) -> int:
    return COOKIE_SPACE << 48 | table << 40 | port << 16 | family << 8 | code


def cookie_table(value: int) -> int:
    return value >> 40 & 0xFF


def cookie_port(value: int) -> int:
    return value >> 16 & 0xFFFF


def cookie_code(value: int) -> int:
    return value & 0xFF


# ── Metadata ───────────────────────────────────────────────────────────────────────────────────────────────────────

_PORT_BITS = 16
_PORT_MASK = (1 << _PORT_BITS) - 1
_CODE_MASK = 0xFF << _PORT_BITS
_BITS = 24


def _port_and_code(port: int, code: int) -> int:
    return code << _PORT_BITS | port


def _match(**values: MatchValue) -> Match:
    return tuple(sorted(values.items()))


# ── conduct ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Treatments: TypeAlias = Mapping[int, Treatment]
"""Of edge ports by number; those that are missing are free."""


def conduct_rules(treatments: Treatments) -> Iterator[FlowRule]:
    """What is special about some ports: a handful of rules each, so that suspicion costs little."""
    yield FlowRule(Table.CONDUCT, 0, (), goto=Table.INGRESS, cookie=cookie(Table.CONDUCT))
    for port, treatment in treatments.items():
        if treatment is not Treatment.FREE:
            yield from _treating_rules(port, demoted=treatment is Treatment.DEMOTED)


def _treating_rules(port: int, *, demoted: bool) -> Iterator[FlowRule]:
    """The flow is counted under the tag that it came with."""
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


# ── ingress ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
    """Tag into metadata, counted by port where hosts are attached.

    DSCP 0 and the values that are not ours (62, 63) have no rule of their own: what a family's tag rules leave over is
    untagged.
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


# ── forward ────────────────────────────────────────────────────────────────────────────────────────────────────────

FLOOD_GROUP = 1
FIRST_SELECT_GROUP = 2
_MULTICAST = ("01:00:00:00:00:00", "01:00:00:00:00:00")


def _equal_cost_ports(topology: Topology, switch: str) -> dict[str, tuple[int, ...]]:
    """Egress port numbers towards each host, by its MAC address."""
    return {
        host.mac: tuple(port.number for port in topology.next_ports(switch, host.name))
        for host in topology.hosts
    }


def _select_group_ids(paths: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    several = sorted({ports for ports in paths if len(ports) > 1})
    return {ports: FIRST_SELECT_GROUP + i for i, ports in enumerate(several)}


def forward_rules(topology: Topology, switch: str) -> Iterator[FlowRule]:
    """Destination → egress port. A host that cannot be reached has no rule; its packets are dropped and counted."""
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
    """One select group for each set of equal-cost ports, and the one that floods.

    Open vSwitch hashes the addresses and TCP ports of a flow to choose the bucket (of UDP only the addresses), not its
    DSCP: a flow keeps its path while its tag grows. Flooded packets never go back to the port that they came from:
    OpenFlow drops such an output.
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


# ── completed ──────────────────────────────────────────────────────────────────────────────────────────────────────


def completed_rules(ports: Iterable[int]) -> Iterator[FlowRule]:
    """FIN packets by egress port and attained-service tag: the histogram of completed flow sizes.

    Only these tags: the end of an untagged flow, a deadline flow or a suspended one says nothing about its size.
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


# ── map ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def map_rule(port: int, code: int, queue: int) -> FlowRule:
    """The rule that says which queue of a port a tag takes.

    It says so twice: `set_queue` for hardware and for the kernel datapath, and as 802.1p priority for the userspace
    datapath, whose ports have a program that turns it into the queue and takes the 802.1Q header off again.
    """
    return FlowRule(
        Table.MAP,
        10,
        _match(metadata=(_port_and_code(port, code), _PORT_MASK | _CODE_MASK)),
        (SetQueue(queue), PushVlan(), SetPriority(queue), Output(port)),
        cookie=cookie(Table.MAP, port, code),
    )


@dataclass(frozen=True, eq=False)
class Remap:
    """Map rules that name another queue from now on, as columns of equal length."""

    ports: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    queues: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ports)

    def rule(self, at: int) -> FlowRule:
        return map_rule(int(self.ports[at]), int(self.codes[at]), int(self.queues[at]))


def remap(ports: Sequence[int], before: Sequence[QueueMap], after: Sequence[QueueMap]) -> Remap:
    """The map rules of these ports whose queue changes."""
    held, wanted = (np.asarray(maps, np.int64).reshape(-1, tags.TAG_COUNT) for maps in (before, after))
    row, code = np.nonzero(held != wanted)
    return Remap(np.asarray(ports, np.int64)[row], code, wanted[row, code])


def map_rules(queue_maps: Mapping[int, QueueMap]) -> Iterator[FlowRule]:
    """Port × tag → queue, for {port: queue map}; packets without a DSCP (ARP) take queue 0."""
    yield FlowRule(Table.MAP, _MISS, (), cookie=cookie(Table.MAP))
    for port, queue_of in queue_maps.items():
        yield map_rule(port, NOT_IP, 0)
        for tag, queue in enumerate(queue_of):
            yield map_rule(port, tag, queue)


# ── A whole switch ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SwitchRules:
    """Everything that a switch holds."""

    groups: tuple[GroupRule, ...]
    flows: tuple[FlowRule, ...]


def _edge(ports: Iterable[Port]) -> tuple[int, ...]:
    return tuple(port.number for port in ports if port.edge)


def switch_rules(
    topology: Topology,
    switch: str,
    queue_maps: Mapping[int, QueueMap],
    treatments: Treatments = MappingProxyType({}),
) -> SwitchRules:
    """All groups and rules of a switch but what it learns; `queue_maps` has one for each of its ports."""
    ports = topology.ports_of[switch]
    flows = (
        *conduct_rules(treatments),
        *ingress_rules(_edge(ports)),
        *forward_rules(topology, switch),
        *completed_rules(port.number for port in ports),
        *map_rules(queue_maps),
    )
    return SwitchRules(group_rules(topology, switch), flows)


@dataclass(frozen=True)
class Changes:
    """What makes the rules of a switch right. `modify` keeps a rule's counters and age."""

    add: tuple[FlowRule, ...] = ()
    modify: tuple[FlowRule, ...] = ()
    delete: tuple[FlowRule, ...] = ()
    add_groups: tuple[GroupRule, ...] = ()
    modify_groups: tuple[GroupRule, ...] = ()
    delete_groups: tuple[int, ...] = ()

    def __len__(self) -> int:
        flows = len(self.add) + len(self.modify) + len(self.delete)
        return flows + len(self.add_groups) + len(self.modify_groups) + len(self.delete_groups)


def treat(before: Treatments, after: Treatments) -> Changes:
    """What makes ports that were treated like that be treated like this."""
    held, wanted = (SwitchRules((), tuple(conduct_rules(treatments))) for treatments in (before, after))
    return diff(held, wanted)


def diff(installed: SwitchRules, wanted: SwitchRules) -> Changes:
    """The changes that turn what a switch holds into what it should hold, and touch nothing that is right."""
    held = {rule.key: rule for rule in installed.flows}
    want = {rule.key: rule for rule in wanted.flows}
    held_groups = {group.group: group for group in installed.groups}
    want_groups = {group.group: group for group in wanted.groups}
    differs = [rule for key, rule in want.items() if key in held and held[key] != rule]
    return Changes(
        # A rule's cookie cannot be modified: such a rule is replaced, as one that is missing is added.
        add=tuple(
            [rule for key, rule in want.items() if key not in held]
            + [rule for rule in differs if held[rule.key].cookie != rule.cookie]
        ),
        modify=tuple(rule for rule in differs if held[rule.key].cookie == rule.cookie),
        delete=tuple(rule for key, rule in held.items() if key not in want),
        add_groups=tuple(group for number, group in want_groups.items() if number not in held_groups),
        modify_groups=tuple(
            group
            for number, group in want_groups.items()
            if number in held_groups and held_groups[number] != group
        ),
        delete_groups=tuple(number for number in held_groups if number not in want_groups),
    )
