# SPDX-License-Identifier: Apache-2.0
"""What a switch can hold, as data: matches, actions, rules and groups of OpenFlow 1.3.

Plain values without I/O. `pipeline.py` makes them, `changes.py` compares them, and `openflow/`
translates them into messages and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

Masked: TypeAlias = tuple[int, int]
"""(value, mask)."""
MatchValue: TypeAlias = int | str | Masked | tuple[str, str]
Match: TypeAlias = tuple[tuple[str, MatchValue], ...]
"""(OpenFlow field name, value or (value, mask)), sorted by field name."""


# ── Actions ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SetQueue:
    """Choose the egress queue."""

    queue: int


@dataclass(frozen=True)
class PushVlan:
    """Push an 802.1Q header.

    `SetPriority` follows, and the port program removes the header again.
    """


@dataclass(frozen=True)
class PopVlan:
    """Take the 802.1Q header off."""


@dataclass(frozen=True)
class SetVlan:
    """Set the VLAN of the 802.1Q header. 0: the header only carries a priority."""

    vlan: int


@dataclass(frozen=True)
class SetPriority:
    """Set the 802.1p priority code point."""

    pcp: int


@dataclass(frozen=True)
class Output:
    """Send the packet out of a port."""

    port: int


@dataclass(frozen=True)
class ToGroup:
    """Hand the packet to a group."""

    group: int


@dataclass(frozen=True)
class LoadMetadata:
    """Write `value` into `bits` bits of metadata, from bit `first` on (Open vSwitch extension)."""

    value: int
    bits: int
    first: int = 0


@dataclass(frozen=True)
class Resubmit:
    """Look the packet up in a table and come back.

    An Open vSwitch extension, needed because a bucket cannot `goto`.
    """

    table: int


@dataclass(frozen=True)
class SetTag:
    """Write a tag into the packet's DSCP."""

    tag: int


class Source(IntEnum):
    """What a learned rule remembers of a packet's sender."""

    ETHERNET = 0
    """Its MAC address."""
    ARP = 1
    """MAC and IPv4 address, from an ARP packet."""
    NEIGHBOUR = 2
    """MAC and IPv6 address, from a neighbour solicitation or advertisement."""


@dataclass(frozen=True)
class LearnHost:
    """Add a rule to `hosts` that remembers from which port the packet's sender sends.

    An Open vSwitch extension: the action `learn`.
    """

    port: int
    source: Source
    first_table: int = 0
    """Of the pipeline."""
    vlans: bool = False
    """Remember the VLAN of its header, too."""


@dataclass(frozen=True)
class LearnFlow:
    """Add a rule to `flows` that counts the packet's flow under its tag.

    An Open vSwitch extension: the action `learn`.
    """

    port: int
    family: int
    """Index into `pipeline.FAMILIES`: 0 is IPv4, 1 is IPv6."""
    protocol: int
    """TCP or UDP."""
    first_table: int = 0
    """Of the pipeline."""


@dataclass(frozen=True)
class Foreign:
    """An action or instruction that no rule of Sluice has. Its text is for the log."""

    text: str


Action: TypeAlias = (
    SetQueue
    | PushVlan
    | PopVlan
    | SetVlan
    | SetPriority
    | Output
    | ToGroup
    | LoadMetadata
    | Resubmit
    | SetTag
    | LearnFlow
    | LearnHost
    | Foreign
)


# ── Rules and groups ───────────────────────────────────────────────────────────────────────────

RuleKey: TypeAlias = tuple[int, int, Match]
"""(table, priority, match): what identifies a rule on the switch."""


@dataclass(frozen=True)
class FlowRule:
    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    write_metadata: Masked | None = None
    goto: int | None = None
    """The next table; None ends the pipeline."""
    cookie: int = 0
    meter: int | None = None
    """The packets pass this meter before the actions; None: no meter."""

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

    @property
    def key(self) -> int:
        return self.group


@dataclass(frozen=True)
class MeterRule:
    """A limit on the packets of all rules that name it. The switch drops what exceeds it."""

    meter: int
    rate_kbps: int
    burst_kbits: int

    @property
    def key(self) -> int:
        return self.meter


@dataclass(frozen=True)
class SwitchRules:
    """Everything that a switch holds, except the rules that it learns from packets."""

    groups: tuple[GroupRule, ...] = ()
    flows: tuple[FlowRule, ...] = ()
    meters: tuple[MeterRule, ...] = ()

    def overlaid(self, over: SwitchRules) -> SwitchRules:
        """Return these rules with others over them. A rule takes the place of the one with the same key."""
        flows = {rule.key: rule for rule in (*self.flows, *over.flows)}
        return SwitchRules((*self.groups, *over.groups), tuple(flows.values()), (*self.meters, *over.meters))


NO_RULES = SwitchRules()
