# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 vocabulary: rules of `pipeline.py` into messages of os-ken, and replies back into rules.

The only file that builds OpenFlow messages. Changes go out as one bundle (ONF extension 230, atomic and ordered),
closed by a barrier: the switch takes all of them at once or none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import nicira_ext, ofproto_common
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from controller import wire
from controller.pipeline import (
    COOKIE_TABLE_MASK,
    Action,
    Bucket,
    Changes,
    FlowRule,
    Foreign,
    GroupKind,
    GroupRule,
    LoadMetadata,
    Match,
    Output,
    PushVlan,
    Resubmit,
    SetPriority,
    SetQueue,
    SwitchRules,
    Table,
    ToGroup,
    cookie,
)
from policy import tags
from policy.adaptation import Carried
from policy.thresholds import Counts

OFP_VERSION: int = ofp.OFP_VERSION
_ETHERTYPE_VLAN = 0x8100
_FOREIGN_COOKIE = -1
"""Stands for the cookie of a rule that would go away by itself: it differs from every cookie of ours."""

# ── Rules into messages ────────────────────────────────────────────────────────────────────────────────────────────


def _action(action: Action) -> Any:
    match action:
        case SetQueue(queue):
            return parser.OFPActionSetQueue(queue)
        case PushVlan():
            return parser.OFPActionPushVlan(_ETHERTYPE_VLAN)
        case SetPriority(pcp):
            return parser.OFPActionSetField(vlan_pcp=pcp)
        case Output(port):
            return parser.OFPActionOutput(port)
        case ToGroup(group):
            return parser.OFPActionGroup(group)
        case LoadMetadata(value, bits):
            return parser.NXActionRegLoad(nicira_ext.ofs_nbits(0, bits - 1), "metadata", value)
        case Resubmit(table):
            return parser.NXActionResubmitTable(table_id=table)
    raise TypeError(f"{action} cannot be installed")


def _instructions(rule: FlowRule) -> list[Any]:
    instructions: list[Any] = []
    if rule.actions:
        actions = [_action(action) for action in rule.actions]
        instructions.append(parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions))
    if rule.write_metadata:
        instructions.append(parser.OFPInstructionWriteMetadata(*rule.write_metadata))
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto))
    return instructions


def _flow_mod(datapath: Any, command: int, rule: FlowRule) -> Any:
    """Counters stay with a modified rule: OFPFF_RESET_COUNTS is not set."""
    return parser.OFPFlowMod(
        datapath,
        cookie=0 if command == ofp.OFPFC_DELETE_STRICT else rule.cookie,
        table_id=rule.table,
        command=command,
        priority=rule.priority,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=parser.OFPMatch(**dict(rule.match)),
        instructions=[] if command == ofp.OFPFC_DELETE_STRICT else _instructions(rule),
    )


def _bucket(bucket: Bucket, kind: GroupKind) -> Any:
    return parser.OFPBucket(
        weight=1 if kind is GroupKind.SELECT else 0,
        watch_port=ofp.OFPP_ANY if bucket.watch_port is None else bucket.watch_port,
        watch_group=ofp.OFPG_ANY,
        actions=[_action(action) for action in bucket.actions],
    )


def _group_mod(datapath: Any, command: int, group: GroupRule) -> Any:
    buckets = [_bucket(bucket, group.kind) for bucket in group.buckets]
    return parser.OFPGroupMod(datapath, command, int(group.kind), group.group, buckets)


def _group_delete(datapath: Any, number: int) -> Any:
    return parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, number, [])


# ── Requests ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Request:
    """Bytes to send, and the transaction ids that answers and errors will carry."""

    data: bytes
    last_xid: int
    """Of the message whose answer completes the request."""
    subjects: Mapping[int, str] = field(default_factory=dict)
    """What each transaction id was about, for the log."""


def _serialised(datapath: Any, message: Any) -> bytes:
    if message.xid is None:
        datapath.set_xid(message)
    message.serialize()
    return bytes(message.buf)


def _change_messages(datapath: Any, changes: Changes) -> Iterator[tuple[Any, object]]:
    """In an order in which each step is possible: a rule's group exists while the rule does."""
    for group in changes.add_groups:
        yield _group_mod(datapath, ofp.OFPGC_ADD, group), group
    for group in changes.modify_groups:
        yield _group_mod(datapath, ofp.OFPGC_MODIFY, group), group
    for rule in changes.delete:
        yield _flow_mod(datapath, ofp.OFPFC_DELETE_STRICT, rule), rule
    for rule in changes.add:
        yield _flow_mod(datapath, ofp.OFPFC_ADD, rule), rule
    for rule in changes.modify:
        yield _flow_mod(datapath, ofp.OFPFC_MODIFY_STRICT, rule), rule
    for number in changes.delete_groups:
        yield _group_delete(datapath, number), number


def change_requests(datapath: Any, changes: Changes, bundle_id: int) -> tuple[Request, ...]:
    """Two steps, each closed by a barrier: fill a bundle; commit it. Nothing to change: one barrier.

    Open vSwitch leaves a message that it cannot read out of a bundle and commits the others, so a bundle must not be
    committed before everything in it has been taken without an error.
    """
    if len(changes) == 0:
        return (_closed_by_barrier(datapath, []),)
    filling = [(_bundle_control(datapath, bundle_id, ofp.ONF_BCT_OPEN_REQUEST), "opening a bundle")]
    for inner, subject in _change_messages(datapath, changes):
        filling.append((parser.ONFBundleAddMsg(datapath, bundle_id, _BUNDLE_FLAGS, inner, []), str(subject)))
    committing = [(_bundle_control(datapath, bundle_id, ofp.ONF_BCT_COMMIT_REQUEST), "committing a bundle")]
    return _closed_by_barrier(datapath, filling), _closed_by_barrier(datapath, committing)


def discard_message(datapath: Any, bundle_id: int) -> bytes:
    """Forget a bundle that was filled in vain."""
    return _serialised(datapath, _bundle_control(datapath, bundle_id, ofp.ONF_BCT_DISCARD_REQUEST))


_BUNDLE_FLAGS = ofp.ONF_BF_ATOMIC | ofp.ONF_BF_ORDERED


def _bundle_control(datapath: Any, bundle_id: int, kind: int) -> Any:
    return parser.ONFBundleCtrlMsg(datapath, bundle_id, kind, _BUNDLE_FLAGS, [])


def _closed_by_barrier(datapath: Any, messages: list[tuple[Any, str]]) -> Request:
    data, subjects = bytearray(), {}
    for message, subject in messages:
        data += _serialised(datapath, message)
        subjects[message.xid] = subject
    barrier = parser.OFPBarrierRequest(datapath)
    data += _serialised(datapath, barrier)
    return Request(bytes(data), barrier.xid, subjects)


def _flow_stats_request(datapath: Any, table: int, cookie_: int = 0, cookie_mask: int = 0) -> Any:
    match = parser.OFPMatch()
    return parser.OFPFlowStatsRequest(
        datapath, 0, table, ofp.OFPP_ANY, ofp.OFPG_ANY, cookie_, cookie_mask, match
    )


def read_request(datapath: Any) -> Request:
    """Ask for all groups and all rules."""
    groups = _request(datapath, parser.OFPGroupDescStatsRequest(datapath, 0), "reading groups")
    rules = _request(datapath, _flow_stats_request(datapath, ofp.OFPTT_ALL), "reading rules")
    return Request(groups.data + rules.data, rules.last_xid, {**groups.subjects, **rules.subjects})


def completed_request(datapath: Any) -> Request:
    """Ask for the counters of completed flows."""
    asked = _flow_stats_request(datapath, Table.COMPLETED, cookie(Table.COMPLETED), COOKIE_TABLE_MASK)
    return _request(datapath, asked, "reading the counters of completed flows")


def carried_request(datapath: Any) -> Request:
    """Ask for the counters of packets and bytes by egress port and tag."""
    asked = _flow_stats_request(datapath, Table.MAP, cookie(Table.MAP), COOKIE_TABLE_MASK)
    return _request(datapath, asked, "reading the counters by tag")


def queues_request(datapath: Any) -> Request:
    """Ask for the counters of all queues."""
    asked = parser.OFPQueueStatsRequest(datapath, 0, ofp.OFPP_ANY, ofp.OFPQ_ALL)
    return _request(datapath, asked, "reading queue statistics")


def _request(datapath: Any, message: Any, subject: str) -> Request:
    data = _serialised(datapath, message)
    return Request(data, message.xid, {message.xid: subject})


# ── Replies into rules ─────────────────────────────────────────────────────────────────────────────────────────────


def _read_action(action: Any) -> Action:
    match action:
        case parser.OFPActionSetQueue():
            return SetQueue(action.queue_id)
        case parser.OFPActionPushVlan() if action.ethertype == _ETHERTYPE_VLAN:
            return PushVlan()
        case parser.OFPActionSetField() if action.key == "vlan_pcp":
            return SetPriority(action.value)
        case parser.OFPActionOutput():
            return Output(action.port)
        case parser.OFPActionGroup():
            return ToGroup(action.group_id)
        case parser.NXActionRegLoad() if action.dst == "metadata" and action.ofs_nbits < 64:
            return LoadMetadata(action.value, action.ofs_nbits + 1)
        case parser.NXActionResubmitTable() if action.in_port == ofp.OFPP_IN_PORT & 0xFFFF:
            return Resubmit(action.table_id)
    return Foreign(str(action))


def _read_rule(stats: Any) -> FlowRule:
    actions: list[Action] = []
    metadata, goto = None, None
    for instruction in stats.instructions:
        match instruction:
            case parser.OFPInstructionActions() if instruction.type == ofp.OFPIT_APPLY_ACTIONS:
                actions += [_read_action(action) for action in instruction.actions]
            case parser.OFPInstructionWriteMetadata():
                metadata = (instruction.metadata, instruction.metadata_mask)
            case parser.OFPInstructionGotoTable():
                goto = instruction.table_id
            case _:
                actions.append(Foreign(str(instruction)))
    stays = not (stats.idle_timeout or stats.hard_timeout)
    return FlowRule(
        stats.table_id,
        stats.priority,
        _read_match(stats.match),
        tuple(actions),
        metadata,
        goto,
        stats.cookie if stays else _FOREIGN_COOKIE,
    )


def _read_match(match: Any) -> Match:
    return tuple(sorted(match.items()))


def _read_bucket(bucket: Any) -> Bucket:
    watch = None if bucket.watch_port == ofp.OFPP_ANY else bucket.watch_port
    return Bucket(tuple(_read_action(action) for action in bucket.actions), watch)


def _read_group(stats: Any) -> GroupRule:
    if stats.type not in tuple(GroupKind):
        return GroupRule(stats.group_id, GroupKind.ALL, (Bucket((Foreign(f"group type {stats.type}"),)),))
    return GroupRule(stats.group_id, GroupKind(stats.type), tuple(_read_bucket(b) for b in stats.buckets))


def read_rules(flow_body: bytes, group_body: bytes) -> SwitchRules:
    """What a switch holds, from its answers to `read_request`. Raises ProtocolViolation."""
    flows = (parser.OFPFlowStats.parser(flow_body, at) for at in wire.flow_entries(flow_body))
    groups = (parser.OFPGroupDescStats.parser(group_body, at) for at in wire.group_entries(group_body))
    return SwitchRules(tuple(map(_read_group, groups)), tuple(map(_read_rule, flows)))


# ── Replies into counters ──────────────────────────────────────────────────────────────────────────────────────────


def completed_counts(body: bytes) -> dict[int, Counts]:
    """Cumulative completed flows by egress port and attained-service bucket; IPv4 and IPv6 together."""
    cookies, packets, _ = wire.flow_counters(body)
    port, code = _ports_and_codes(cookies)
    attained = (code >= tags.ATTAINED_FIRST) & (code <= tags.ATTAINED_LAST)
    ports, row = np.unique(port[attained], return_inverse=True)
    counts = np.zeros((len(ports), tags.ATTAINED_BUCKETS), np.int64)
    np.add.at(counts, (row, code[attained] - tags.ATTAINED_FIRST), packets[attained].astype(np.int64))
    return {int(number): counts[i] for i, number in enumerate(ports)}


def carried_counts(body: bytes) -> dict[int, Carried]:
    """Cumulative packets and bytes by egress port and tag, two arrays of shape (62,) a port."""
    cookies, packets, size_bytes = wire.flow_counters(body)
    port, code = _ports_and_codes(cookies)
    tagged = code < tags.TAG_COUNT
    ports, row = np.unique(port[tagged], return_inverse=True)
    counts = np.zeros((len(ports), 2, tags.TAG_COUNT), np.int64)
    for kind, column in enumerate((packets, size_bytes)):
        np.add.at(counts[:, kind], (row, code[tagged]), column[tagged].astype(np.int64))
    return {int(number): (counts[i, 0], counts[i, 1]) for i, number in enumerate(ports)}


def _ports_and_codes(cookies: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Egress port and tag (or code) of each counter."""
    port = (cookies >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)
    return port, (cookies & np.uint64(0xFF)).astype(np.int64)


@dataclass(frozen=True)
class QueueCounters:
    """Cumulative transmitted bytes and packets of a port, by queue."""

    size_bytes: tuple[int, ...]
    packets: tuple[int, ...]


def queue_counts(body: bytes) -> dict[int, QueueCounters]:
    """Counters by port, queues in order."""
    by_port: dict[int, list[Any]] = defaultdict(list)
    for row in np.sort(wire.queue_counters(body), order=("port", "queue")):
        by_port[int(row["port"])].append(row)
    return {
        port: QueueCounters(
            tuple(int(row["bytes"]) for row in rows), tuple(int(row["packets"]) for row in rows)
        )
        for port, rows in by_port.items()
    }


def error_text(message: Any) -> str:
    """What an OpenFlow error message says, in words."""
    if message.type == ofp.OFPET_EXPERIMENTER:
        owner = (
            "ONF" if message.experimenter == ofproto_common.ONF_EXPERIMENTER_ID else hex(message.experimenter)
        )
        return f"experimenter error {message.exp_type} of {owner}"
    kind = ofp.ofp_error_type_to_str(message.type)
    return f"{kind}, {ofp.ofp_error_code_to_str(message.type, message.code)}"


def is_commit_reply(message: Any) -> bool:
    """The switch has committed a bundle."""
    return bool(message.type == ofp.ONF_BCT_COMMIT_REPLY)
