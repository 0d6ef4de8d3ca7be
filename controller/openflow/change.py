# SPDX-License-Identifier: Apache-2.0
"""Changes of rules into messages: flow-mods, group-mods, and the bundles that carry them.

A change is one bundle (ONF extension 230, atomic and ordered), closed by a barrier: the switch
takes all of it or nothing.

os-ken's classes write each different match and action list once, and the bytes are cached,
because switches have most of them in common. Threshold changes, which are frequent, are copies of
one message with the different fields written into place.

Meters: messages that change them, and replies about them (1.3.5, sections 7.3.4.4, 7.3.5.14 and 7.3.5.15).

Open vSwitch takes no meter into a bundle. So meters are added before the bundle with the rules that name them, and
deleted after the bundle that removes these rules.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import nicira_ext, ofproto_common
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller import rules, tables
from sluice.controller.changes import Changes, Remap
from sluice.controller.openflow import frames
from sluice.controller.openflow.frames import HEADER, MessageType, ProtocolViolation, message
from sluice.controller.openflow.learn import NXAST_LEARN2, learn_body
from sluice.controller.openflow.request import CODEC, Request, XidSource, barrier, serialised
from sluice.controller.pipeline import lldp_rule, map_rule
from sluice.controller.rules import Action, Bucket, FlowRule, GroupKind, GroupRule, Match, MeterRule, Resubmit
from sluice.controller.tables import METER_SPACE, Table, cookie, match_on
from sluice.policy.network.description import SeenHost

# ── Meters ──────────────────────────────────────────────────────────────────────────────────────────


_CONFIG = struct.Struct("!HHI")
_BAND = struct.Struct("!HHII4x")
_FEATURES = struct.Struct("!IIIBBxx")
_FLAGS = ofp.OFPMF_KBPS | ofp.OFPMF_BURST | ofp.OFPMF_STATS
_DROP = ofp.OFPMBT_DROP


def meter_mod(command: int, meter: MeterRule, xid: int) -> bytes:
    """Return the message that adds or modifies a meter."""
    band = parser.OFPMeterBandDrop(meter.rate_kbps, meter.burst_kbits)
    return serialised(parser.OFPMeterMod(CODEC, command, _FLAGS, meter.meter, [band]), xid)


def meter_delete(number: int, xid: int) -> bytes:
    """Return the message that deletes a meter. A switch ignores it if it has no such meter."""
    return serialised(parser.OFPMeterMod(CODEC, ofp.OFPMC_DELETE, 0, number, []), xid)


def read_meters(body: bytes, first_table: int = 0) -> tuple[MeterRule, ...]:
    """Return the meters of a reply. Raises ProtocolViolation.

    If the pipeline does not begin at table 0, the meters of others are left out.
    """
    meters = []
    for start in frames.meter_entry_offsets(body):
        length, flags, number = _CONFIG.unpack_from(body, start)
        rate_kbps = burst_kbits = 0  # of a meter that is none of Sluice's: it differs from all of them
        if flags == _FLAGS and length == _CONFIG.size + _BAND.size:
            kind, _, rate, burst = _BAND.unpack_from(body, start + _CONFIG.size)
            if kind == _DROP:
                rate_kbps, burst_kbits = rate, burst
        if not first_table or number - METER_SPACE in range(tables.MAX_METERS):
            meters.append(MeterRule(number, rate_kbps, burst_kbits))
    return tuple(meters)


def offers_meters(body: bytes) -> bool:
    """Whether a switch has meters that drop, by its reply. An empty reply is that of a switch that knows no meters."""
    if not body:
        return False
    if len(body) != _FEATURES.size:
        raise ProtocolViolation(
            f"a reply about the features of meters has {len(body)} bytes instead of {_FEATURES.size}"
        )
    most, bands, *_ = _FEATURES.unpack(body)
    return most > 0 and bool(bands >> _DROP & 1)


ETHERTYPE_VLAN = 0x8100
CACHED_BODIES = 1 << 15
"""A switch with a hundred edge ports has 27,000 different rule bodies."""


# ── Rules and groups ───────────────────────────────────────────────────────────────────────────


def _action(action: Action) -> Any:
    match action:
        case rules.SetQueue(queue):
            return parser.OFPActionSetQueue(queue)
        case rules.PushVlan():
            return parser.OFPActionPushVlan(ETHERTYPE_VLAN)
        case rules.PopVlan():
            return parser.OFPActionPopVlan()
        case rules.SetVlan(vlan):
            return parser.OFPActionSetField(vlan_vid=tables.VLAN_PRESENT | vlan)
        case rules.SetPriority(pcp):
            return parser.OFPActionSetField(vlan_pcp=pcp)
        case rules.Output(port):
            return parser.OFPActionOutput(port)
        case rules.ToGroup(group):
            return parser.OFPActionGroup(group)
        case rules.LoadMetadata(value, bits, first):
            ofs_nbits = nicira_ext.ofs_nbits(first, first + bits - 1)
            return parser.NXActionRegLoad(ofs_nbits, "metadata", value)
        case Resubmit(table):
            return parser.NXActionResubmitTable(table_id=table)
        case rules.SetTag(tag):
            return parser.OFPActionSetField(ip_dscp=tag)
        case rules.LearnFlow() | rules.LearnHost():
            return parser.NXActionUnknown(NXAST_LEARN2, learn_body(action))
    raise TypeError(f"{action} cannot be installed")


def instructions(rule: FlowRule) -> list[Any]:
    """Return a rule's instructions as os-ken's objects."""
    entries: list[Any] = [] if rule.meter is None else [parser.OFPInstructionMeter(rule.meter)]
    if rule.actions:
        actions = [_action(action) for action in rule.actions]
        entries.append(parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions))
    if rule.write_metadata:
        entries.append(parser.OFPInstructionWriteMetadata(*rule.write_metadata))
    if rule.goto is not None:
        entries.append(parser.OFPInstructionGotoTable(rule.goto))
    return entries


FLOW_MOD = struct.Struct("!QQBBHHHIIIHxx")


@lru_cache(CACHED_BODIES)
def rule_body(rule: FlowRule) -> bytes:
    """Return the bytes of a rule's match and instructions."""
    fields = dict(rule.match)
    fragment = fields.pop("ip_frag", None)
    match = parser.OFPMatch(**fields)
    if fragment is not None:
        # os-ken would write `ip_frag` before `eth_type`, which Open vSwitch refuses.
        match = parser.OFPMatch(_ordered_fields=[*match.items(), ("ip_frag", fragment)])
    flow_mod = parser.OFPFlowMod(CODEC, match=match, instructions=instructions(rule))
    return serialised(flow_mod)[HEADER.size + FLOW_MOD.size :]


def shifted(rule: FlowRule, by: int) -> FlowRule:
    """Return the rule of a pipeline whose first table is `by` tables later (earlier if negative)."""
    if not by:
        return rule
    actions = tuple(_shifted_action(action, by) for action in rule.actions)
    goto = None if rule.goto is None else rule.goto + by
    return replace(rule, table=rule.table + by, actions=actions, goto=goto)


def shifted_group(group: GroupRule, by: int) -> GroupRule:
    """Return the group of such a pipeline."""
    if not by:
        return group
    buckets = (replace(b, actions=tuple(_shifted_action(a, by) for a in b.actions)) for b in group.buckets)
    return replace(group, buckets=tuple(buckets))


def _shifted_action(action: Action, by: int) -> Action:
    match action:
        case Resubmit(table):
            return Resubmit(table + by)
        case rules.LearnFlow() | rules.LearnHost():
            return replace(action, first_table=action.first_table + by)
    return action


def flow_mod(command: int, rule: FlowRule, xid: int) -> bytes:
    """Return the message that adds, modifies or deletes a rule."""
    # Without what makes no difference to its body, so that the cache finds it.
    bare = FlowRule(0, 0, rule.match, rule.actions, rule.write_metadata, rule.goto, meter=rule.meter)
    number = rule.cookie
    if command == ofp.OFPFC_DELETE_STRICT:
        bare, number = FlowRule(0, 0, rule.match), 0
    # OFPFF_RESET_COUNTS is not among the flags, which are 0: a modified rule keeps its counters.
    filters = (ofp.OFP_NO_BUFFER, ofp.OFPP_ANY, ofp.OFPG_ANY)
    head = FLOW_MOD.pack(number, 0, rule.table, command, 0, 0, rule.priority, *filters, 0)
    return message(MessageType.FLOW_MOD, head + rule_body(bare), xid)


def os_ken_bucket(bucket: Bucket, kind: GroupKind) -> Any:
    """Return a bucket as os-ken's object."""
    return parser.OFPBucket(
        weight=1 if kind is GroupKind.SELECT else 0,
        watch_port=ofp.OFPP_ANY if bucket.watch_port is None else bucket.watch_port,
        watch_group=ofp.OFPG_ANY,
        actions=[_action(action) for action in bucket.actions],
    )


def group_mod(command: int, group: GroupRule, xid: int) -> bytes:
    """Return the message that adds or modifies a group."""
    buckets = [os_ken_bucket(bucket, group.kind) for bucket in group.buckets]
    return serialised(parser.OFPGroupMod(CODEC, command, int(group.kind), group.group, buckets), xid)


def group_delete(number: int, xid: int) -> bytes:
    """Return the message that deletes a group."""
    return serialised(parser.OFPGroupMod(CODEC, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, number, []), xid)


# ── Changes ────────────────────────────────────────────────────────────────────────────────────

_Writer: TypeAlias = Callable[[int], bytes]
"""Writes a message with a transaction id."""


def change_requests(
    xids: XidSource, changes: Changes, bundle_id: int, first_table: int = 0
) -> tuple[Request, ...]:
    """Return the requests of a change, each closed by a barrier: add meters, fill a bundle, commit it, delete meters.

    They are separate because Open vSwitch leaves a message that it cannot read out of a bundle and
    commits the others. So each must not be sent before the one before has ended without an error.
    A step without messages is left out. Without changes there is one request: a barrier.
    """
    begun = [partial(meter_mod, ofp.OFPMC_ADD, meter) for meter in changes.add.meters]
    begun += [partial(meter_mod, ofp.OFPMC_MODIFY, meter) for meter in changes.modify.meters]
    ended = [partial(meter_delete, meter.meter) for meter in changes.delete.meters]
    steps = _meter_step(xids, begun)
    if changes.bundled or not (begun or ended):
        messages = list(_change_messages(changes, first_table))
        first = xids.reserve_xids(len(messages) + 2)
        filling = b"".join(
            _bundle_add(bundle_id, write(first + i), first + i) for i, (write, _) in enumerate(messages, 1)
        )
        steps += _steps(xids, bundle_id, first, filling, len(messages), lambda at: messages[at][1])
    return steps + _meter_step(xids, ended)


def _meter_step(xids: XidSource, messages: Sequence[_Writer]) -> tuple[Request, ...]:
    if not messages:
        return ()
    first = xids.reserve_xids(len(messages) + 1)
    data = b"".join(write(first + i) for i, write in enumerate(messages))
    last = first + len(messages)
    return (Request(data + barrier(last), first, last, lambda _: "changing meters"),)


def _change_messages(changes: Changes, first_table: int) -> Iterator[tuple[_Writer, object]]:
    """Yield writers of messages and their subjects; a group exists as long as rules lead to it."""
    for group in changes.add.groups:
        yield partial(group_mod, ofp.OFPGC_ADD, shifted_group(group, first_table)), group
    for group in changes.modify.groups:
        yield partial(group_mod, ofp.OFPGC_MODIFY, shifted_group(group, first_table)), group
    for command, changed in (
        (ofp.OFPFC_DELETE_STRICT, changes.delete.flows),
        (ofp.OFPFC_ADD, changes.add.flows),
        (ofp.OFPFC_MODIFY_STRICT, changes.modify.flows),
    ):
        for rule in changed:
            yield partial(flow_mod, command, shifted(rule, first_table)), rule
    for group in changes.delete.groups:
        yield partial(group_delete, group.group), group.group


def remap_requests(
    xids: XidSource, changes: Remap, bundle_id: int, first_table: int = 0
) -> tuple[Request, ...]:
    """Return the requests of `change_requests` for map rules that get another queue.

    All messages are written at once, into copies of one message.
    """
    first = xids.reserve_xids(len(changes) + 2)
    template, row = _remap_template(changes.priority_tags)
    data = bytearray(template * len(changes))
    rows: npt.NDArray[np.void] = np.frombuffer(data, row)
    rows["xid"] = rows["inner_xid"] = np.arange(first + 1, first + 1 + len(changes))
    rows["bundle"] = bundle_id
    rows["table"] = first_table + Table.MAP
    rows["cookie"] = cookie(Table.MAP, 0, 0) | changes.ports << 16 | changes.codes
    rows["metadata"] = changes.codes << 16 | changes.ports
    rows["queue"] = changes.queues
    if changes.priority_tags:
        rows["pcp"] = changes.queues
    rows["port"] = changes.ports
    return _steps(xids, bundle_id, first, bytes(data), len(changes), changes.rule)


# ── Bundles ────────────────────────────────────────────────────────────────────────────────────

_BUNDLE_FLAGS = ofp.ONF_BF_ATOMIC | ofp.ONF_BF_ORDERED
_BUNDLE_CONTROL = struct.Struct("!IIIHH")
_BUNDLE_ADD = struct.Struct("!IIIxxH")
_ONF = ofproto_common.ONF_EXPERIMENTER_ID


def _steps(
    xids: XidSource,
    bundle_id: int,
    first_xid: int,
    filling: bytes,
    count: int,
    subject_of: Callable[[int], object],
) -> tuple[Request, ...]:
    """Return the requests that fill and commit a bundle of `count` messages; `first_xid` is of its first message."""
    if not count:
        return (Request(barrier(first_xid), first_xid, first_xid, lambda _: "a barrier"),)

    def subject(at: int) -> str:
        return str(subject_of(at - 1)) if 1 <= at <= count else "filling a bundle"

    last_xid = first_xid + count + 1
    opening = _bundle_control(bundle_id, ofp.ONF_BCT_OPEN_REQUEST, first_xid)
    commit_xid = xids.reserve_xids(2)
    commit = _bundle_control(bundle_id, ofp.ONF_BCT_COMMIT_REQUEST, commit_xid)
    return (
        Request(opening + filling + barrier(last_xid), first_xid, last_xid, subject),
        Request(
            commit + barrier(commit_xid + 1), commit_xid, commit_xid + 1, lambda _: "committing a bundle"
        ),
    )


def discard_message(xids: XidSource, bundle_id: int) -> bytes:
    """Return the message that makes a switch forget a bundle which it has not committed."""
    return _bundle_control(bundle_id, ofp.ONF_BCT_DISCARD_REQUEST, xids.reserve_xids(1))


def _bundle_control(bundle_id: int, kind: int, xid: int) -> bytes:
    body = _BUNDLE_CONTROL.pack(_ONF, ofp.ONF_ET_BUNDLE_CONTROL, bundle_id, kind, _BUNDLE_FLAGS)
    return message(MessageType.EXPERIMENTER, body, xid)


def _bundle_add(bundle_id: int, inner: bytes, xid: int) -> bytes:
    head = _BUNDLE_ADD.pack(_ONF, ofp.ONF_ET_BUNDLE_ADD_MESSAGE, bundle_id, _BUNDLE_FLAGS)
    return message(MessageType.EXPERIMENTER, head + inner, xid)


# ── Threshold changes ──────────────────────────────────────────────────────────────────────────

_IN_BUNDLE = HEADER.size + _BUNDLE_ADD.size
_REMAP_FIELDS: dict[str, tuple[str, int]] = {
    "xid": (">u4", 4),
    "bundle": (">u4", HEADER.size + 8),
    "inner_xid": (">u4", _IN_BUNDLE + 4),
    "cookie": (">u8", _IN_BUNDLE + 8),
    "table": ("u1", _IN_BUNDLE + 24),
    "metadata": (">u8", _IN_BUNDLE + 56),
    "queue": (">u4", _IN_BUNDLE + 84),
}
"""Fields in which two messages that modify a map rule differ: (type, offset in bytes)."""
_TAGGED_FIELDS = {"pcp": ("u1", _IN_BUNDLE + 104), "port": (">u4", _IN_BUNDLE + 116)}
_UNTAGGED_FIELDS = {"port": (">u4", _IN_BUNDLE + 92)}
_OWN_TAG_FIELDS = _TAGGED_FIELDS | {"queue": (">u4", _IN_BUNDLE + 92)}
"""More such fields, of rules with and without a priority tag, and with one in the frame's own header."""


@cache
def _remap_template(priority_tags: int) -> tuple[bytes, np.dtype[np.void]]:
    rule = map_rule(0, 0, 0, priority_tag=priority_tags)
    template = _bundle_add(0, flow_mod(ofp.OFPFC_MODIFY_STRICT, rule, 0), 0)
    fields = _REMAP_FIELDS | (_UNTAGGED_FIELDS, _TAGGED_FIELDS, _OWN_TAG_FIELDS)[priority_tags]
    row = np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": len(template),
        }
    )
    return template, row


# ── Switches that Sluice leaves ─────────────────────────────────────────────────────────────────────


MAX_RELEASED_GROUPS = 1024
MAX_RELEASED_METERS = 1024


def lldp_rule_message(xids: XidSource, first_table: int = 0) -> bytes:
    """Return the message that makes a switch send the controller's LLDP frames back to it."""
    return flow_mod(ofp.OFPFC_ADD, shifted(lldp_rule(), first_table), xids.reserve_xids(1))


def release_message(xids: XidSource, *, bridges: bool) -> bytes:
    """Return the messages that remove all rules, groups and meters of Sluice from a switch.

    `bridges`: the switch then forwards by its own table of addresses, as one without a controller.
    """
    numbers = (tables.GROUP_SPACE + i for i in range(1, MAX_RELEASED_GROUPS))
    groups = b"".join(group_delete(number, xids.reserve_xids(1)) for number in numbers)
    meters = b"".join(
        meter_delete(METER_SPACE + port, xids.reserve_xids(1)) for port in range(1, MAX_RELEASED_METERS)
    )
    removal = _removal(xids, ofp.OFPTT_ALL)
    normal = FlowRule(0, 0, (), (rules.Output(tables.NORMAL),))
    bridging = flow_mod(ofp.OFPFC_ADD, normal, xids.reserve_xids(1)) if bridges else b""
    return removal + bridging + groups + meters


def forget_message(xids: XidSource, host: SeenHost, first_table: int = 0) -> bytes:
    """Return the message that makes a switch forget that a host was behind its port."""
    vlan = {"vlan_vid": tables.VLAN_PRESENT | host.vlan} if host.vlan else {}
    at_port = match_on(in_port=tables.port_number(host.at[1]), eth_src=host.mac, **vlan)
    return _removal(xids, first_table + Table.HOSTS, at_port)


def _removal(xids: XidSource, table: int, match: Match = ()) -> bytes:
    """Return the message that removes the rules of Sluice with at least these fields."""
    where = (table, ofp.OFPFC_DELETE, 0, 0, 0)
    filters = (ofp.OFP_NO_BUFFER, ofp.OFPP_ANY, ofp.OFPG_ANY)
    head = FLOW_MOD.pack(tables.COOKIE_SPACE << 48, tables.COOKIE_SPACE_MASK, *where, *filters, 0)
    return message(MessageType.FLOW_MOD, head + rule_body(FlowRule(0, 0, match)), xids.reserve_xids(1))
