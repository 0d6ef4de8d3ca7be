# SPDX-License-Identifier: Apache-2.0
"""An OpenFlow switch in memory. It checks changes as strictly as a real switch, and forwards packets."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluice.controller import rules
from sluice.controller.changes import Changes
from sluice.controller.rules import NO_RULES, Action, FlowRule, GroupRule, MeterRule, RuleKey, SwitchRules
from sluice.controller.tables import VLAN_PRESENT

IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806


@dataclass(frozen=True)
class Packet:
    in_port: int
    eth_dst: str
    eth_type: int = IPV4
    dscp: int = 0
    fin: bool = False
    protocol: int = 6
    fragment: int = 0
    """Open vSwitch's ip_frag: 0, 1 for the first fragment, 3 for a later one."""
    vlan: int | None = None
    """VLAN of its 802.1Q header; None without one."""
    flow_hash: int = 0
    """A select group chooses the bucket by this value."""

    def fields(self, metadata: int) -> Mapping[str, int | str]:
        """Return the match fields of the packet, without fields that it does not have."""
        fields: dict[str, int | str] = {
            "in_port": self.in_port,
            "eth_dst": self.eth_dst,
            "eth_type": self.eth_type,
            "metadata": metadata,
        }
        fields["vlan_vid"] = 0 if self.vlan is None else VLAN_PRESENT | self.vlan
        if self.eth_type in (IPV4, IPV6):
            fields |= {"ip_dscp": self.dscp, "ip_proto": self.protocol, "ip_frag": self.fragment}
            if self.protocol == 6 and self.fragment < 2:
                fields["tcp_flags"] = 0x10 | self.fin
        return fields


@dataclass(frozen=True)
class Sent:
    """A packet that has left the switch."""

    port: int
    queue: int
    pcp: int | None
    """None if no rule has written an 802.1p tag."""
    vlan: int | None = field(default=None, compare=False)
    """VLAN of the header with which it leaves; 0: the header only carries the priority."""


@dataclass
class _Walk:
    """A packet on its way through the tables."""

    packet: Packet
    metadata: int = 0
    queue: int = 0
    pcp: int | None = None
    sent: list[Sent] = field(default_factory=list)
    meters: list[int] = field(default_factory=list)


def _number(value: int | str) -> int:
    return int(value.replace(":", ""), 16) if isinstance(value, str) else value


def _value_and_mask(match: rules.MatchValue) -> tuple[int | str, int | str]:
    return match if isinstance(match, tuple) else (match, -1)


def _matches(rule: FlowRule, fields: Mapping[str, int | str]) -> bool:
    for name, expected in rule.match:
        if name not in fields:
            return False
        value, mask = _value_and_mask(expected)
        if _number(fields[name]) & _number(mask) != _number(value) & _number(mask):
            return False
    return True


class FakeSwitch:
    def __init__(self, rules: SwitchRules = NO_RULES) -> None:
        self.flows: dict[RuleKey, FlowRule] = {rule.key: rule for rule in rules.flows}
        self.groups: dict[int, GroupRule] = {group.group: group for group in rules.groups}
        self.packets: Counter[RuleKey] = Counter()
        """Packets that matched each rule. They are lost with the rule, as on a real switch."""
        self.meters: dict[int, MeterRule] = {meter.meter: meter for meter in rules.meters}
        self.down: set[int] = set()
        """Ports without a link: select groups pass by their buckets."""

    @property
    def rules(self) -> SwitchRules:
        return SwitchRules(
            tuple(self.groups.values()), tuple(self.flows.values()), tuple(self.meters.values())
        )

    # ── Changes ─────────────────────────────────────────────────────────────────────────────────

    def apply(self, changes: Changes) -> None:
        """Apply a bundle.

        Raises AssertionError if a real switch would refuse it, or if it changes a rule that is already right.
        """
        self._change_meters(changes)
        for group in changes.add.groups:
            assert group.group not in self.groups, f"group {group.group} exists"
            self.groups[group.group] = group
        for group in changes.modify.groups:
            assert self.groups[group.group] != group
            self.groups[group.group] = group
        for rule in changes.delete.flows:
            del self.flows[rule.key]
            del self.packets[rule.key]
        for rule in changes.add.flows:
            assert self.flows.get(rule.key) != rule, f"{rule} was right"
            self._install(rule)
            del self.packets[rule.key]
        for rule in changes.modify.flows:
            assert self.flows[rule.key].cookie == rule.cookie, "a cookie cannot be modified"
            assert self.flows[rule.key] != rule, f"{rule} was right"
            self._install(rule)
        for group in changes.delete.groups:
            del self.groups[group.group]
            self._check_groups(self.flows.values())
        for meter in changes.delete.meters:
            del self.meters[meter.meter]
            assert meter.meter not in {rule.meter for rule in self.flows.values()}, "its rules would go, too"

    def _change_meters(self, changes: Changes) -> None:
        for meter in changes.add.meters:
            assert meter.meter not in self.meters, f"meter {meter.meter} exists"
            self.meters[meter.meter] = meter
        for meter in changes.modify.meters:
            assert self.meters[meter.meter] != meter
            self.meters[meter.meter] = meter

    def _install(self, rule: FlowRule) -> None:
        self._check_groups([rule])
        assert rule.goto is None or rule.goto > rule.table, "goto only leads forward"
        assert rule.meter is None or rule.meter in self.meters, f"no meter {rule.meter}"
        self.flows[rule.key] = rule

    def _check_groups(self, flows: Iterable[FlowRule]) -> None:
        for rule in flows:
            for action in rule.actions:
                if isinstance(action, rules.ToGroup):
                    assert action.group in self.groups, f"no group {action.group}"

    # ── Packets ─────────────────────────────────────────────────────────────────────────────────

    def send(self, packet: Packet) -> list[Sent]:
        """Return where the packet goes, and in which queue."""
        walk = _Walk(packet)
        self._table(0, walk)
        return walk.sent

    def meters_of(self, packet: Packet) -> list[int]:
        """Return the meters that the packet passes."""
        walk = _Walk(packet)
        self._table(0, walk)
        return walk.meters

    def _table(self, table: int, walk: _Walk) -> None:
        fields = walk.packet.fields(walk.metadata)
        matching = [rule for rule in self.flows.values() if rule.table == table and _matches(rule, fields)]
        if not matching:
            return
        best = max(rule.priority for rule in matching)
        rules = [rule for rule in matching if rule.priority == best]
        assert len(rules) == 1, f"ambiguous: {rules}"
        self._rule(rules[0], walk)

    def _rule(self, rule: FlowRule, walk: _Walk) -> None:
        self.packets[rule.key] += 1
        if rule.meter is not None:
            walk.meters.append(rule.meter)
        for action in rule.actions:
            self._act(action, walk)
        if rule.write_metadata:
            value, mask = rule.write_metadata
            walk.metadata = walk.metadata & ~mask | value & mask
        if rule.goto is not None:
            self._table(rule.goto, walk)

    def _act(self, action: Action, walk: _Walk) -> None:
        match action:
            case rules.SetQueue(queue):
                walk.queue = queue
            case rules.PushVlan():
                assert walk.packet.vlan is None, "a frame of full length has no room for a second header"
                walk.packet, walk.pcp = replace(walk.packet, vlan=0), 0
            case rules.PopVlan():
                walk.packet, walk.pcp = replace(walk.packet, vlan=None), None
            case rules.SetVlan(vlan):
                assert walk.packet.vlan is not None, "no 802.1Q header to set a VLAN in"
                walk.packet = replace(walk.packet, vlan=vlan)
            case rules.SetPriority(pcp):
                assert walk.packet.vlan is not None, "no 802.1Q header to set a priority in"
                walk.pcp = pcp
            case rules.SetTag(tag):
                walk.packet = replace(walk.packet, dscp=tag)
            case rules.LoadMetadata(value, bits, first):
                mask = (1 << bits) - 1 << first
                walk.metadata = walk.metadata & ~mask | value << first
            case rules.Resubmit(table):
                self._table(table, walk)
            case rules.Output(port) if port != walk.packet.in_port:
                walk.sent.append(Sent(port, walk.queue, walk.pcp, walk.packet.vlan))
            case rules.ToGroup(number):
                self._group(self.groups[number], walk)

    def _group(self, group: GroupRule, walk: _Walk) -> None:
        # Each bucket works on a copy, because its actions have no effect outside it.
        buckets = group.buckets
        if group.kind is rules.GroupKind.SELECT:
            buckets = tuple(bucket for bucket in buckets if bucket.watch_port not in self.down)
            buckets = (buckets[walk.packet.flow_hash % len(buckets)],) if buckets else ()
        for bucket in buckets:
            copy = _Walk(walk.packet, walk.metadata, pcp=walk.pcp, sent=walk.sent)
            for action in bucket.actions:
                self._act(action, copy)
