# SPDX-License-Identifier: Apache-2.0
"""Replies into rules and groups, so that a controller can compare them with what it wants.

os-ken parses each different match and instruction list once. Most rules of a switch share theirs
with other switches, so the results are cached.
"""

import struct
from functools import lru_cache
from typing import Any, TypeAlias

from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller import rules
from sluice.controller.openflow import change, frames, learn
from sluice.controller.rules import Action, Bucket, FlowRule, Foreign, GroupKind, GroupRule, SwitchRules
from sluice.controller.tables import GROUP_SPACE, MAX_GROUPS, VLAN_PRESENT, Table

_FOREIGN_COOKIE = -1
"""Replaces the cookie of a rule that expires. It differs from every cookie of Sluice, so the rule
is replaced."""


def read_rules(
    flow_body: bytes, group_body: bytes, first_table: int = 0, meter_body: bytes = b""
) -> SwitchRules:
    """Return what a switch holds, from its replies to `rules_request`. Raises ProtocolViolation.

    Rules that the switch has learned itself are left out. If the pipeline does not begin at table 0, the rest of the
    switch belongs to others, and their rules, groups and meters are left out, too.
    """
    tables = range(first_table, first_table + len(Table))
    flows = [
        change.shifted(_read_rule(entry), -first_table)
        for entry in frames.flow_entries(flow_body)
        if not learn.is_learned(entry) and (not first_table or entry.table in tables)
    ]
    groups = []
    for at in frames.group_entry_offsets(group_body):
        stats = parser.OFPGroupDescStats.parser(group_body, at)
        if not first_table or stats.group_id - GROUP_SPACE in range(MAX_GROUPS):
            groups.append(change.shifted_group(_read_group(stats), -first_table))
    return SwitchRules(tuple(groups), tuple(flows), change.read_meters(meter_body, first_table))


def _read_rule(entry: frames.FlowEntry) -> FlowRule:
    cookie = _FOREIGN_COOKIE if any(entry.timeouts) else entry.cookie
    match, actions, metadata, goto, meter = _read_body(entry.tail)
    return FlowRule(entry.table, entry.priority, match, actions, metadata, goto, cookie, meter)


_Body: TypeAlias = tuple[rules.Match, tuple[Action, ...], rules.Masked | None, int | None, int | None]
"""What a rule matches and does: match, actions, metadata, the next table, the meter."""


@lru_cache(change.CACHED_BODIES)
def _read_body(tail: bytes) -> _Body:
    """Read the match and the instructions of a flow statistics entry.

    Raises ProtocolViolation, or any exception of os-ken's parser.
    """
    frames.check_tail(tail)
    head = struct.pack("!H", frames.FLOW_FIXED_BYTES + len(tail)) + bytes(frames.FLOW_FIXED_BYTES - 2)
    stats = parser.OFPFlowStats.parser(head + tail, 0)
    actions: list[Action] = []
    metadata, goto, meter = None, None, None
    for instruction in stats.instructions:
        match instruction:
            case parser.OFPInstructionActions() if instruction.type == ofp.OFPIT_APPLY_ACTIONS:
                actions += [_read_action(action) for action in instruction.actions]
            case parser.OFPInstructionWriteMetadata():
                metadata = (instruction.metadata, instruction.metadata_mask)
            case parser.OFPInstructionGotoTable():
                goto = instruction.table_id
            case parser.OFPInstructionMeter():
                meter = instruction.meter_id
            case _:
                actions.append(Foreign(str(instruction)))
    return tuple(sorted(stats.match.items())), tuple(actions), metadata, goto, meter


def _read_action(action: Any) -> Action:
    match action:
        case parser.OFPActionSetQueue():
            return rules.SetQueue(action.queue_id)
        case parser.OFPActionPushVlan() if action.ethertype == change.ETHERTYPE_VLAN:
            return rules.PushVlan()
        case parser.OFPActionPopVlan():
            return rules.PopVlan()
        case parser.OFPActionSetField() if action.key == "vlan_vid":
            return rules.SetVlan(action.value & ~VLAN_PRESENT)
        case parser.OFPActionSetField() if action.key == "vlan_pcp":
            return rules.SetPriority(action.value)
        case parser.OFPActionOutput():
            return rules.Output(action.port)
        case parser.OFPActionGroup():
            return rules.ToGroup(action.group_id)
        case parser.NXActionRegLoad() if action.dst == "metadata":
            return rules.LoadMetadata(action.value, (action.ofs_nbits & 0x3F) + 1, action.ofs_nbits >> 6)
        case parser.NXActionResubmitTable() if action.in_port == ofp.OFPP_IN_PORT & 0xFFFF:
            return rules.Resubmit(action.table_id)
        case parser.OFPActionSetField() if action.key == "ip_dscp":
            return rules.SetTag(action.value)
        case parser.NXActionUnknown() if action._subtype == learn.NXAST_LEARN2:
            return learn.read_learn(bytes(action.data)) or Foreign(str(action))
    return Foreign(str(action))


def _read_group(stats: Any) -> GroupRule:
    if stats.type not in tuple(GroupKind):
        foreign = Bucket((Foreign(f"group type {stats.type}"),))
        return GroupRule(stats.group_id, GroupKind.ALL, (foreign,))
    buckets = tuple(
        Bucket(
            tuple(_read_action(action) for action in bucket.actions),
            None if bucket.watch_port == ofp.OFPP_ANY else bucket.watch_port,
        )
        for bucket in stats.buckets
    )
    return GroupRule(stats.group_id, GroupKind(stats.type), buckets)
