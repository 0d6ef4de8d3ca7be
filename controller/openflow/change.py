# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 vocabulary: rules of `pipeline.py` into messages, and replies back into rules and counters.

The only file that builds OpenFlow messages. Changes go out as one bundle (ONF extension 230, atomic and ordered),
closed by a barrier: the switch takes all of them at once or none.

os-ken's classes say how a match or an action looks on the wire, once for each different rule: a body that has been
written or read is remembered, since switches have most of theirs in common. What goes out again and again (polls,
barriers, threshold changes) is made of templates, with the fields that differ written into place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import nicira_ext, ofproto_common, ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from controller.changes import Changes, Remap
from controller.cookies import COOKIE_TABLE_MASK, cookie, cookie_port
from controller.openflow import frames as wire
from controller.pipeline import FAMILIES, Table, map_rule
from controller.policing import LOW_TAGS, FlowSeen
from controller.rules import (
    Action,
    Bucket,
    FlowRule,
    Foreign,
    GroupKind,
    GroupRule,
    LearnFlow,
    LoadMetadata,
    Match,
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

OFP_VERSION: int = ofp.OFP_VERSION
_ETHERTYPE_VLAN = 0x8100
_FOREIGN_COOKIE = -1
"""Stands for the cookie of a rule that would go away by itself: it differs from every cookie of ours."""
_REMEMBERED = 1 << 15
"""Bodies of rules: those of a switch with a hundred ports, twice."""
_CODEC = ofproto_protocol.ProtocolDesc(version=OFP_VERSION)


class Datapath(Protocol):
    """What a connection is to those who write messages for it."""

    def reserve_xids(self, count: int) -> int:
        """The first of so many transaction ids in a row."""


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
        case SetTag(tag):
            return parser.OFPActionSetField(ip_dscp=tag)
        case LearnFlow():
            return parser.NXActionUnknown(_NXAST_LEARN2, _learn_body(action))
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


# ── Learning ───────────────────────────────────────────────────────────────────────────────────────────────────────
#
# The action `learn` with a limit, which os-ken does not know (Open vSwitch 2.8, struct nx_action_learn2 of
# lib/ofp-actions.c). A specification copies a field of the packet into the match of the new rule, or a constant.

_NXAST_LEARN2 = 45
_WITNESS_S = 2
"""For so long a learned rule outlives its flow's last packet: learning it again prolongs it."""
MOST_WITNESSES = 64
"""Rules that one port learns at once: flows × tags."""
_LEARN = struct.Struct("!HHHQHBxHHIHxx")
_FROM_FIELD = struct.Struct("!HIHIH")
_CONSTANT_16 = struct.Struct("!HHIH")
_IS_CONSTANT = 0x2000


def _nxm(vendor: int, field: int, size: int) -> int:
    return vendor << 16 | field << 9 | size


_IN_PORT, _ETH_TYPE, _IP_TOS, _IP_PROTO = _nxm(0, 0, 2), _nxm(0, 3, 2), _nxm(0, 5, 1), _nxm(0, 6, 1)
_ADDRESSES = ((_nxm(0, 7, 4), _nxm(0, 8, 4)), (_nxm(1, 19, 16), _nxm(1, 20, 16)))
"""Of IPv4 and IPv6."""
_L4_PORTS = {6: (_nxm(0, 9, 2), _nxm(0, 10, 2)), 17: (_nxm(0, 11, 2), _nxm(0, 12, 2))}
"""Of TCP and UDP."""


def _learn_body(flow: LearnFlow) -> bytes:
    """What follows the subtype, filled up to a multiple of eight."""
    number = cookie(Table.WITNESS, flow.port)
    head = _LEARN.pack(0, _WITNESS_S, 1, number, 0, Table.WITNESS, 0, 0, MOST_WITNESSES, 0)
    body = head + _constant(FAMILIES[flow.family], 16, _ETH_TYPE) + _constant(flow.protocol, 8, _IP_PROTO)
    sizes = (8 * (field & 0xFF) for field in _ADDRESSES[flow.family])
    # The two lowest bits of the type of service are zero, not ECN; of OXM's six bits Open vSwitch learns no match.
    copied = [
        (_IN_PORT, 16),
        *zip(_ADDRESSES[flow.family], sizes, strict=True),
        *((port, 16) for port in _L4_PORTS[flow.protocol]),
        (_IP_TOS, 8),
    ]
    body += b"".join(_FROM_FIELD.pack(bits, field, 0, field, 0) for field, bits in copied)
    return body + bytes(-(len(body) + 2) % 8)


def _constant(value: int, bits: int, field: int) -> bytes:
    return _CONSTANT_16.pack(_IS_CONSTANT | bits, value, field, 0)


def _read_learn(body: bytes) -> LearnFlow | None:
    """None when it is none of ours."""
    if len(body) < _LEARN.size:
        return None
    port = cookie_port(_LEARN.unpack_from(body)[3])
    ours = (LearnFlow(port, family, protocol) for family in (0, 1) for protocol in _L4_PORTS)
    return next((flow for flow in ours if _learn_body(flow) == body), None)


# ── Messages ───────────────────────────────────────────────────────────────────────────────────────────────────────

_HEADER = struct.Struct("!BBHI")
_FLOW_MOD = struct.Struct("!QQBBHHHIIIHxx")


def _message(kind: int, xid: int, body: bytes) -> bytes:
    return _HEADER.pack(OFP_VERSION, kind, _HEADER.size + len(body), xid) + body


def _serialised(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


@lru_cache(_REMEMBERED)
def rule_body(rule: FlowRule) -> bytes:
    """Match and instructions of a rule (its table, priority and cookie do not matter)."""
    match = parser.OFPMatch(**dict(rule.match))
    message = parser.OFPFlowMod(_CODEC, match=match, instructions=_instructions(rule))
    return _serialised(message, 0)[_HEADER.size + _FLOW_MOD.size :]


def _flow_mod(command: int, rule: FlowRule, xid: int) -> bytes:
    """Counters stay with a modified rule: OFPFF_RESET_COUNTS is not set."""
    deletes = command == ofp.OFPFC_DELETE_STRICT
    body = rule_body(FlowRule(0, 0, rule.match) if deletes else _bare(rule))
    head = _FLOW_MOD.pack(
        0 if deletes else rule.cookie,
        0,
        rule.table,
        command,
        0,
        0,
        rule.priority,
        ofp.OFP_NO_BUFFER,
        ofp.OFPP_ANY,
        ofp.OFPG_ANY,
        0,
    )
    return _message(ofp.OFPT_FLOW_MOD, xid, head + body)


def _bare(rule: FlowRule) -> FlowRule:
    return FlowRule(0, 0, rule.match, rule.actions, rule.write_metadata, rule.goto)


def _bucket(bucket: Bucket, kind: GroupKind) -> Any:
    return parser.OFPBucket(
        weight=1 if kind is GroupKind.SELECT else 0,
        watch_port=ofp.OFPP_ANY if bucket.watch_port is None else bucket.watch_port,
        watch_group=ofp.OFPG_ANY,
        actions=[_action(action) for action in bucket.actions],
    )


def group_mod(command: int, group: GroupRule, xid: int) -> bytes:
    buckets = [_bucket(bucket, group.kind) for bucket in group.buckets]
    return _serialised(parser.OFPGroupMod(_CODEC, command, int(group.kind), group.group, buckets), xid)


def _group_delete(number: int, xid: int) -> bytes:
    return _serialised(parser.OFPGroupMod(_CODEC, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, number, []), xid)


# ── Requests ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Request:
    """Bytes to send, and the transaction ids that answers and errors will carry: those of its messages, in a row."""

    data: bytes
    first_xid: int
    last_xid: int
    """Of the message whose answer completes the request."""
    subject: Callable[[int], str]
    """What its n-th message is about, for the log."""

    def about(self, xid: int) -> str | None:
        """What a transaction id was about; None when it is not of this request."""
        return self.subject(xid - self.first_xid) if self.first_xid <= xid <= self.last_xid else None


_Writer = Callable[[int], bytes]
"""Writes a message with a transaction id."""


def _change_messages(changes: Changes) -> Iterator[tuple[_Writer, object]]:
    """In an order in which each step is possible: a rule's group exists while the rule does."""
    for group in changes.add_groups:
        yield lambda xid, group=group: group_mod(ofp.OFPGC_ADD, group, xid), group  # type: ignore[misc]
    for group in changes.modify_groups:
        yield lambda xid, group=group: group_mod(ofp.OFPGC_MODIFY, group, xid), group  # type: ignore[misc]
    for command, rules in (
        (ofp.OFPFC_DELETE_STRICT, changes.delete),
        (ofp.OFPFC_ADD, changes.add),
        (ofp.OFPFC_MODIFY_STRICT, changes.modify),
    ):
        for rule in rules:
            yield lambda xid, command=command, rule=rule: _flow_mod(command, rule, xid), rule  # type: ignore[misc]
    for number in changes.delete_groups:
        yield lambda xid, number=number: _group_delete(number, xid), number  # type: ignore[misc]


def change_requests(datapath: Datapath, changes: Changes, bundle_id: int) -> tuple[Request, ...]:
    """Two steps, each closed by a barrier: fill a bundle; commit it. Nothing to change: one barrier.

    Open vSwitch leaves a message that it cannot read out of a bundle and commits the others, so a bundle must not be
    committed before everything in it has been taken without an error.
    """
    messages = list(_change_messages(changes))
    first = datapath.reserve_xids(len(messages) + 2)
    inner = b"".join(
        _bundle_add(bundle_id, write(first + i), first + i) for i, (write, _) in enumerate(messages, 1)
    )
    return _steps(datapath, bundle_id, first, inner, [subject for _, subject in messages])


def remap_requests(datapath: Datapath, changes: Remap, bundle_id: int) -> tuple[Request, ...]:
    """The same for map rules that take another queue: written all at once, into copies of one message."""
    first = datapath.reserve_xids(len(changes) + 2)
    inner = _remap_messages(changes, bundle_id, first + 1)
    return _steps(datapath, bundle_id, first, inner, _Rules(changes))


class _Rules(Sequence[object]):
    """The rules of a remap, made only when somebody asks."""

    def __init__(self, changes: Remap) -> None:
        self._changes = changes

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, at: Any) -> Any:
        return self._changes.rule(at)


def _steps(
    datapath: Datapath, bundle_id: int, first_xid: int, inner: bytes, subjects: Sequence[object]
) -> tuple[Request, ...]:
    if len(subjects) == 0:
        return (Request(_barrier(first_xid), first_xid, first_xid, lambda _: "a barrier"),)

    def filling(at: int) -> str:
        return str(subjects[at - 1]) if 1 <= at <= len(subjects) else "filling a bundle"

    last_xid = first_xid + len(subjects) + 1
    opened = _bundle_control(bundle_id, ofp.ONF_BCT_OPEN_REQUEST, first_xid)
    commit_xid = datapath.reserve_xids(2)
    commit = _bundle_control(bundle_id, ofp.ONF_BCT_COMMIT_REQUEST, commit_xid) + _barrier(commit_xid + 1)
    return (
        Request(opened + inner + _barrier(last_xid), first_xid, last_xid, filling),
        Request(commit, commit_xid, commit_xid + 1, lambda _: "committing a bundle"),
    )


def discard_message(datapath: Datapath, bundle_id: int) -> bytes:
    """Forget a bundle that was filled in vain."""
    return _bundle_control(bundle_id, ofp.ONF_BCT_DISCARD_REQUEST, datapath.reserve_xids(1))


_BUNDLE_FLAGS = ofp.ONF_BF_ATOMIC | ofp.ONF_BF_ORDERED
_BUNDLE_CONTROL = struct.Struct("!IIIHH")
_BUNDLE_ADD = struct.Struct("!IIIxxH")
_ONF = ofproto_common.ONF_EXPERIMENTER_ID


def _bundle_control(bundle_id: int, kind: int, xid: int) -> bytes:
    body = _BUNDLE_CONTROL.pack(_ONF, ofp.ONF_ET_BUNDLE_CONTROL, bundle_id, kind, _BUNDLE_FLAGS)
    return _message(ofp.OFPT_EXPERIMENTER, xid, body)


def _bundle_add(bundle_id: int, message: bytes, xid: int) -> bytes:
    head = _BUNDLE_ADD.pack(_ONF, ofp.ONF_ET_BUNDLE_ADD_MESSAGE, bundle_id, _BUNDLE_FLAGS)
    return _message(ofp.OFPT_EXPERIMENTER, xid, head + message)


def _barrier(xid: int) -> bytes:
    return _message(ofp.OFPT_BARRIER_REQUEST, xid, b"")


_IN_BUNDLE = _HEADER.size + _BUNDLE_ADD.size
_REMAP_FIELDS: dict[str, tuple[str, int]] = {
    "xid": (">u4", 4),
    "bundle": (">u4", _HEADER.size + 8),
    "inner_xid": (">u4", _IN_BUNDLE + 4),
    "cookie": (">u8", _IN_BUNDLE + 8),
    "metadata": (">u8", _IN_BUNDLE + 56),
    "queue": (">u4", _IN_BUNDLE + 84),
    "pcp": ("u1", _IN_BUNDLE + 104),
    "port": (">u4", _IN_BUNDLE + 116),
}
"""Where a message that changes a map rule differs from another one."""


@cache
def _remap_template() -> tuple[bytes, np.dtype[np.void]]:
    message = _bundle_add(0, _flow_mod(ofp.OFPFC_MODIFY_STRICT, map_rule(0, 0, 0), 0), 0)
    names, fields = zip(*_REMAP_FIELDS.items(), strict=True)
    formats, offsets = zip(*fields, strict=True)
    row = {"names": names, "formats": formats, "offsets": offsets, "itemsize": len(message)}
    return message, np.dtype(row)  # type: ignore[call-overload]


def _remap_messages(changes: Remap, bundle_id: int, first_xid: int) -> bytes:
    message, row = _remap_template()
    data = bytearray(message * len(changes))
    rows = np.frombuffer(data, row)
    rows["xid"] = rows["inner_xid"] = np.arange(first_xid, first_xid + len(changes))
    rows["bundle"] = bundle_id
    rows["cookie"] = cookie(Table.MAP, 0, 0) | changes.ports << 16 | changes.codes
    rows["metadata"] = changes.codes << 16 | changes.ports
    rows["queue"] = rows["pcp"] = changes.queues
    rows["port"] = changes.ports
    return bytes(data)


def _flow_stats_request(table: int, cookie_: int = 0, cookie_mask: int = 0) -> Any:
    match = parser.OFPMatch()
    return parser.OFPFlowStatsRequest(
        _CODEC, 0, table, ofp.OFPP_ANY, ofp.OFPG_ANY, cookie_, cookie_mask, match
    )


@cache
def _ask_groups() -> bytes:
    return _serialised(parser.OFPGroupDescStatsRequest(_CODEC, 0), 0)


@cache
def _ask_rules() -> bytes:
    return _serialised(_flow_stats_request(ofp.OFPTT_ALL), 0)


@cache
def _ask_counters(table: Table) -> bytes:
    return _serialised(_flow_stats_request(table, cookie(table), COOKIE_TABLE_MASK), 0)


@cache
def _ask_queues() -> bytes:
    return _serialised(parser.OFPQueueStatsRequest(_CODEC, 0, ofp.OFPP_ANY, ofp.OFPQ_ALL), 0)


def _request(datapath: Datapath, *messages: tuple[bytes, str]) -> Request:
    """These messages, each with a transaction id of its own in the place where the template has none."""
    first = datapath.reserve_xids(len(messages))
    data = b"".join(m[:4] + struct.pack("!I", first + i) + m[8:] for i, (m, _) in enumerate(messages))
    return Request(data, first, first + len(messages) - 1, lambda at: messages[at][1])


def read_request(datapath: Datapath) -> Request:
    """Ask for all groups and all rules."""
    return _request(datapath, (_ask_groups(), "reading groups"), (_ask_rules(), "reading rules"))


def completed_request(datapath: Datapath) -> Request:
    """Ask for the counters of completed flows."""
    return _request(datapath, (_ask_counters(Table.COMPLETED), "reading the counters of completed flows"))


def carried_request(datapath: Datapath) -> Request:
    """Ask for the counters of packets and bytes by egress port and tag."""
    return _request(datapath, (_ask_counters(Table.MAP), "reading the counters by tag"))


def ingress_request(datapath: Datapath, *, all_tags: bool) -> Request:
    """Ask for the counters of packets and bytes by ingress port and tag; unless of all tags, of those below 16."""
    asked = _ask_counters(Table.INGRESS) if all_tags else _ask_low_tags()
    return _request(datapath, (asked, "reading the counters at the ingress"))


@cache
def _ask_low_tags() -> bytes:
    mask = COOKIE_TABLE_MASK | 0xFF & ~(LOW_TAGS - 1)
    return _serialised(_flow_stats_request(Table.INGRESS, cookie(Table.INGRESS, 0, 0), mask), 0)


def witness_request(datapath: Datapath) -> Request:
    """Ask for the counters of the flows of watched ports."""
    return _request(datapath, (_ask_counters(Table.WITNESS), "reading the counters of flows"))


def queues_request(datapath: Datapath) -> Request:
    """Ask for the counters of all queues."""
    return _request(datapath, (_ask_queues(), "reading queue statistics"))


# ── Roles ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Role(IntEnum):
    """What a controller is to a switch (1.3.5, section 6.3.6)."""

    EQUAL = 1
    MASTER = 2
    SLAVE = 3


def role_request(datapath: Datapath, role: Role, generation: int) -> Request:
    """Ask for a role; a switch refuses a generation older than the newest that it has seen."""
    body = struct.pack("!IxxxxQ", role, generation)
    return _request(datapath, (_message(ofp.OFPT_ROLE_REQUEST, 0, body), f"becoming {role.name.lower()}"))


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
        case parser.OFPActionSetField() if action.key == "ip_dscp":
            return SetTag(action.value)
        case parser.NXActionUnknown() if action._subtype == _NXAST_LEARN2:
            return _read_learn(bytes(action.data)) or Foreign(str(action))
    return Foreign(str(action))


class _Body(NamedTuple):
    """What a rule matches and does."""

    match: Match
    actions: tuple[Action, ...]
    metadata: tuple[int, int] | None
    goto: int | None


@lru_cache(_REMEMBERED)
def _read_body(tail: bytes) -> _Body:
    """Match and instructions of a flow statistics entry. Raises ProtocolViolation, or what os-ken stumbles over."""
    wire.check_tail(tail)
    head = struct.pack("!H", wire.FLOW_FIXED + len(tail)) + bytes(wire.FLOW_FIXED - 2)
    stats = parser.OFPFlowStats.parser(head + tail, 0)
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
    return _Body(tuple(sorted(stats.match.items())), tuple(actions), metadata, goto)


def _read_rule(entry: wire.FlowEntry) -> FlowRule:
    own_cookie = _FOREIGN_COOKIE if any(entry.timeouts) else entry.cookie
    return FlowRule(entry.table, entry.priority, *_read_body(entry.tail), own_cookie)


def _read_bucket(bucket: Any) -> Bucket:
    watch = None if bucket.watch_port == ofp.OFPP_ANY else bucket.watch_port
    return Bucket(tuple(_read_action(action) for action in bucket.actions), watch)


def _read_group(stats: Any) -> GroupRule:
    if stats.type not in tuple(GroupKind):
        return GroupRule(stats.group_id, GroupKind.ALL, (Bucket((Foreign(f"group type {stats.type}"),)),))
    return GroupRule(stats.group_id, GroupKind(stats.type), tuple(_read_bucket(b) for b in stats.buckets))


def read_rules(flow_body: bytes, group_body: bytes) -> SwitchRules:
    """What a switch holds, from its answers to `read_request`. Raises ProtocolViolation."""
    groups = (parser.OFPGroupDescStats.parser(group_body, at) for at in wire.group_entries(group_body))
    entries = (entry for entry in wire.flow_entries(flow_body) if not _is_learned(entry))
    return SwitchRules(tuple(map(_read_group, groups)), tuple(map(_read_rule, entries)))


def _is_learned(entry: wire.FlowEntry) -> bool:
    """By the switch itself, of our rules; it goes away by itself."""
    number = cookie(Table.WITNESS, cookie_port(entry.cookie))
    return entry.table == Table.WITNESS and entry.cookie == number and entry.timeouts == (0, _WITNESS_S)


# ── Replies into counters ──────────────────────────────────────────────────────────────────────────────────────────

Ints = npt.NDArray[np.int64]


class Counted(NamedTuple):
    """Cumulative counters, one row for each port that was asked about."""

    counts: Ints
    """Shape (P, kinds, codes)."""
    seen: npt.NDArray[np.bool_]
    """The switch has said something about the port, shape (P,)."""


def completed_counts(body: bytes, ports: Ints) -> Counted:
    """Completed flows by attained-service bucket, IPv4 and IPv6 together: (P, 1, 40). `ports`: numbers, sorted."""
    cookies, packets, _ = wire.flow_counters(body)
    return _by_port_and_code(cookies, (packets,), ports, tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)


def carried_counts(body: bytes, ports: Ints) -> Counted:
    """Packets and bytes by tag, at the egress or the ingress: (P, 2, 62)."""
    cookies, packets, size_bytes = wire.flow_counters(body)
    return _by_port_and_code(cookies, (packets, size_bytes), ports, tags.UNTAGGED, tags.TAG_COUNT)


def _by_port_and_code(
    cookies: npt.NDArray[np.uint64],
    columns: Sequence[npt.NDArray[np.uint64]],
    ports: Ints,
    first_code: int,
    end_code: int,
) -> Counted:
    """Sums of the counters with the same port and code; codes outside the range and other ports count nowhere."""
    number = (cookies >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)
    code = (cookies & np.uint64(0xFF)).astype(np.int64)
    row = _rows_of(number, ports)
    ours = (row >= 0) & (code >= first_code) & (code < end_code)
    row, codes = row[ours], end_code - first_code
    cell = row * codes + code[ours] - first_code
    counts = np.zeros((len(columns), len(ports) * codes), np.int64)
    for kind, column in enumerate(columns):
        np.add.at(counts[kind], cell, column[ours].astype(np.int64))
    seen = np.zeros(len(ports), bool)
    seen[row] = True
    return Counted(counts.reshape(len(columns), len(ports), codes).swapaxes(0, 1), seen)


def _rows_of(numbers: Ints, ports: Ints) -> Ints:
    """The row of each number among the ports, which are sorted; -1 for the others."""
    row_of = np.full(int(ports[-1]) + 2 if len(ports) else 1, -1, np.int64)
    row_of[ports] = np.arange(len(ports))
    return np.asarray(row_of[np.minimum(numbers, len(row_of) - 1)])


_POSITIVE = (1 << 63) - 1


def witnessed(body: bytes) -> list[FlowSeen]:
    """The flows of watched ports, each under all of its tags. Raises ProtocolViolation."""
    seen: dict[tuple[int, str], FlowSeen] = {}
    for record in wire.flow_records(body):
        found = _flow_and_tag(record.match)
        if found is None:
            continue
        name, tag = found
        flow = seen.setdefault((cookie_port(record.cookie), name), FlowSeen(cookie_port(record.cookie), name))
        flow.age_s = max(flow.age_s, record.duration_s)
        flow.counts[tag] = (record.packets & _POSITIVE, record.size_bytes & _POSITIVE)
    return list(seen.values())


_DSCP_FIELD, _PROTOCOL_FIELD = 8, 10
_ADDRESS_FIELDS, _PORT_FIELDS = ((11, 12), (26, 27)), {6: (13, 14), 17: (15, 16)}


@lru_cache(_REMEMBERED)
def _flow_and_tag(match: bytes) -> tuple[str, int] | None:
    """The flow's name and the tag that a learned rule counts.

    None for what is no flow: the later fragments of datagrams have no port numbers, whichever socket sent them.
    """
    fields = wire.match_fields(match)
    tag = fields.get(_DSCP_FIELD, b"\0")[0]
    protocol = fields.get(_PROTOCOL_FIELD, b"\0")[0]
    addresses = next(
        ((fields[s], fields[d]) for s, d in _ADDRESS_FIELDS if s in fields and d in fields), None
    )
    ports = [fields.get(field, b"") for field in _PORT_FIELDS.get(protocol, ())]
    if addresses is None or tag >= tags.TAG_COUNT or not any(map(any, ports)):
        return None
    source, destination = (
        _place(address, int.from_bytes(port, "big")) for address, port in zip(addresses, ports, strict=True)
    )
    return f"{_PROTOCOL_NAMES[protocol]} {source} > {destination}", tag


_PROTOCOL_NAMES = {6: "TCP", 17: "UDP"}


def _place(address: bytes, port: int) -> str:
    host = ip_address(address)
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


@dataclass(frozen=True)
class QueueCounters:
    """Cumulative transmitted bytes and packets of a port, by queue."""

    size_bytes: tuple[int, ...]
    packets: tuple[int, ...]


def queue_counts(body: bytes) -> dict[int, QueueCounters]:
    """Counters by port, queues in order."""
    rows = wire.queue_counters(body)
    rows = rows[np.lexsort((rows["queue"], rows["port"]))]
    ports, starts = np.unique(rows["port"], return_index=True)
    size_bytes, packets = rows["bytes"].tolist(), rows["packets"].tolist()
    ends = np.append(starts, len(rows))[1:].tolist()
    return {
        port: QueueCounters(tuple(size_bytes[start:end]), tuple(packets[start:end]))
        for port, start, end in zip(ports.tolist(), starts.tolist(), ends, strict=True)
    }


# ── Errors ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def error_text(message: Any) -> str:
    """What an OpenFlow error message says, in words."""
    if message.type == ofp.OFPET_EXPERIMENTER:
        owner = "ONF" if message.experimenter == _ONF else hex(message.experimenter)
        return f"experimenter error {message.exp_type} of {owner}"
    kind = ofp.ofp_error_type_to_str(message.type)
    return f"{kind}, {ofp.ofp_error_code_to_str(message.type, message.code)}"


_ANOTHER_IS_MASTER = {
    (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE),
    (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE),
}


def another_is_master(message: Any) -> bool:
    """An error message that says so: the switch takes this controller for a slave, or has seen a newer master."""
    return (message.type, getattr(message, "code", None)) in _ANOTHER_IS_MASTER


def commits(message: Any, bundle_id: int) -> bool:
    """The switch has committed that bundle."""
    return bool(message.type == ofp.ONF_BCT_COMMIT_REPLY and message.bundle_id == bundle_id)
