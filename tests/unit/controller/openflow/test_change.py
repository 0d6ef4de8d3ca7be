# SPDX-License-Identifier: Apache-2.0
"""Changes and requests as messages; meters; and the rules that a switch reports, read back."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.changes import Changes, Remap, diff
from sluice.controller.openflow import change
from sluice.controller.openflow import request as requests
from sluice.controller.openflow.change import change_requests
from sluice.controller.openflow.frames import VERSION, MessageType, ProtocolViolation, StatsType
from sluice.controller.openflow.read import read_rules
from sluice.controller.pipeline import PriorityTag, map_rule, switch_rules
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules
from sluice.controller.rules import FlowRule, Foreign, GroupRule, MeterRule, Output, SwitchRules
from sluice.controller.tables import COOKIE_TABLE_MASK, METER_SPACE, Table, cookie
from sluice.policy import tags
from sluice.policy.network.graph import Port
from sluice.policy.network.vlans import Vlans
from sluice.policy.policing.limits import Treatment
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes import openflow as fakes
from tests.fakes.openflow import Xids, flow_entry, frames, inners
from tests.kit.networks import leaf_spine, single

CODEC = ofproto_protocol.ProtocolDesc(version=VERSION)
EXPERIMENTER, BARRIER = MessageType.EXPERIMENTER, MessageType.BARRIER_REQUEST


def wanted(edge_bytes: int) -> SwitchRules:
    topology = leaf_spine()
    queue_of = mlfq_map([edge_bytes], queues=2, untagged_queue=1)
    maps = {port.number: queue_of for port in topology.ports_of["s1"]}
    return switch_rules(topology, "s1", maps)


def test_change_requests__describe_every_message_by_its_transaction_id() -> None:
    changes = diff(wanted(10_000), wanted(20_000))
    fill, _ = change_requests(Xids(), changes, 9)
    added = [(frame, found) for frame in frames(fill.data) if (found := fakes.inner(frame))]
    assert [fill.subject_of(frame.xid) for frame, _ in added] == list(map(str, changes.modify.flows))
    assert fill.subject_of(fill.first_xid - 1) is fill.subject_of(fill.last_xid + 1) is None
    assert all(found.xid == frame.xid for frame, found in added)


def test_change_requests__without_changes_are_one_barrier() -> None:
    (only,) = change_requests(Xids(), Changes(), 9)
    assert [frame.kind for frame in frames(only.data)] == [BARRIER]


def test_discard_message__names_the_bundle() -> None:
    (frame,) = frames(change.discard_message(Xids(), 9))
    assert struct.unpack_from("!IH", frame.data, 16) == (9, ofp.ONF_BCT_DISCARD_REQUEST)


def test_change_requests__are_byte_for_byte_what_os_ken_writes() -> None:
    """Rules added, modified and deleted; groups of every kind."""
    held, want = wanted(10_000), wanted(20_000)
    for changes in (
        diff(SwitchRules(), want),
        diff(held, want),
        diff(held, SwitchRules()),
        diff(SwitchRules(want.groups[:1], ()), SwitchRules(tuple(reversed(want.groups)), ())),
    ):
        fill, _ = change_requests(Xids(), changes, 7)
        first, *added, _ = frames(fill.data)
        assert [frame.data for frame in added] == list(by_os_ken(changes, 7, first.xid + 1))


def _match_of(rule: FlowRule) -> Any:
    """Return os-ken's match, with `ip_frag` last: Open vSwitch wants `eth_type` before it."""
    fields = [(name, value) for name, value in rule.match if name != "ip_frag"]
    plain = parser.OFPMatch(**dict(fields))
    return parser.OFPMatch(_ordered_fields=[*plain.items(), *(f for f in rule.match if f[0] == "ip_frag")])


def by_os_ken(changes: Changes, bundle_id: int, first_xid: int) -> Iterator[bytes]:
    """Yield the same messages in the same order, each an object of os-ken's."""
    messages = [
        *(group_mod(ofp.OFPGC_ADD, group) for group in changes.add.groups),
        *(group_mod(ofp.OFPGC_MODIFY, group) for group in changes.modify.groups),
        *(flow_mod(ofp.OFPFC_DELETE_STRICT, rule) for rule in changes.delete.flows),
        *(flow_mod(ofp.OFPFC_ADD, rule) for rule in changes.add.flows),
        *(flow_mod(ofp.OFPFC_MODIFY_STRICT, rule) for rule in changes.modify.flows),
        *(
            parser.OFPGroupMod(CODEC, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, group.group, [])
            for group in changes.delete.groups
        ),
    ]
    flags = ofp.ONF_BF_ATOMIC | ofp.ONF_BF_ORDERED
    for xid, message in enumerate(messages, first_xid):
        yield written(parser.ONFBundleAddMsg(CODEC, bundle_id, flags, message, []), xid)


def written(message: Any, xid: int) -> bytes:
    """Return the bytes of an os-ken message."""
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def flow_mod(command: int, rule: FlowRule) -> Any:
    deletes = command == ofp.OFPFC_DELETE_STRICT
    return parser.OFPFlowMod(
        CODEC,
        cookie=0 if deletes else rule.cookie,
        table_id=rule.table,
        command=command,
        priority=rule.priority,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=_match_of(rule),
        instructions=[] if deletes else change.instructions(rule),
    )


def group_mod(command: int, group: GroupRule) -> Any:
    buckets = [change.os_ken_bucket(bucket, group.kind) for bucket in group.buckets]
    return parser.OFPGroupMod(CODEC, command, int(group.kind), group.group, buckets)


@pytest.mark.parametrize(("tagged", "first_table"), [(True, 0), (False, 0), (True, 10), (PriorityTag.OWN, 0)])
@given(
    moves=st.lists(
        st.tuples(st.integers(1, 0xFF00), st.integers(0, tags.TAG_COUNT), st.integers(0, 7)), max_size=50
    )
)
def test_remap_requests__are_byte_for_byte_the_modifications_one_by_one(
    tagged: int, first_table: int, moves: list[tuple[int, int, int]]
) -> None:
    ports, codes, queues = np.asarray(moves, np.int64).reshape(-1, 3).T
    one_by_one = Changes(
        modify=SwitchRules(flows=tuple(map_rule(*move, priority_tag=tagged) for move in moves))
    )
    written = change.remap_requests(Xids(), Remap(ports, codes, queues, tagged), 3, first_table)
    assert [r.data for r in written] == [r.data for r in change_requests(Xids(), one_by_one, 3, first_table)]
    first_xid = written[0].first_xid
    assert [written[0].subject_of(first_xid + i) for i in range(1, len(moves) + 1)] == [
        str(rule) for rule in one_by_one.modify.flows
    ]


METER = MeterRule(METER_SPACE + 2, 1000, 160)
FLAGS = ofp.OFPMF_KBPS | ofp.OFPMF_BURST | ofp.OFPMF_STATS


def config(meter: MeterRule, kind: int = ofp.OFPMBT_DROP) -> bytes:
    """Return the entry of a meter in a switch's reply."""
    band = struct.pack("!HHII4x", kind, 16, meter.rate_kbps, meter.burst_kbits)
    return struct.pack("!HHI", 24, FLAGS, meter.meter) + band


def test_read_meters__returns_what_was_written_and_knows_other_kinds_as_foreign() -> None:
    remark = config(METER, ofp.OFPMBT_DSCP_REMARK)
    assert change.read_meters(config(METER)) == (METER,)
    assert change.read_meters(remark) == (MeterRule(METER.meter, 0, 0),)
    assert read_rules(b"", b"", 0, config(METER)).meters == (METER,)


def test_read_meters__beside_the_tables_of_others_only_those_of_sluice() -> None:
    body = config(MeterRule(1, 5, 5)) + config(METER)
    assert len(change.read_meters(body)) == 2
    assert change.read_meters(body, first_table=10) == (METER,)


@pytest.mark.parametrize("body", [b"\0", struct.pack("!HHI", 7, 0, 1), struct.pack("!HHI", 24, 0, 1)])
def test_read_meters__refuses_a_wrong_length(body: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="a meter"):
        change.read_meters(body)


@pytest.mark.parametrize(
    ("most", "bands", "offers"), [(8, 1 << 1, True), (0, 1 << 1, False), (8, 1 << 2, False)]
)
def test_offers_meters__only_those_that_drop(most: int, bands: int, offers: bool) -> None:
    assert change.offers_meters(struct.pack("!IIIBBxx", most, bands, 0, 1, 0)) is offers


def test_offers_meters__not_without_an_answer() -> None:
    assert not change.offers_meters(b"")
    with pytest.raises(ProtocolViolation, match="15 bytes"):
        change.offers_meters(bytes(15))


def rules_of(treated: PortTreatments) -> SwitchRules:
    return policing_rules(treated, EdgePorts())


def test_change_requests__a_meter_exists_before_its_rules_and_after_them() -> None:
    free, limited = (
        rules_of(PortTreatments()),
        rules_of(PortTreatments({2: Treatment.DEMOTED}, {2: 1_000_000})),
    )
    begins, fill, commit = change_requests(Xids(), diff(free, limited), 1)
    assert [frame.kind for frame in frames(begins.data)] == [MessageType.METER_MOD, BARRIER]
    assert len(inners(fill.data)) == 7
    assert begins.last_xid < fill.first_xid < fill.last_xid < commit.first_xid
    fill, _, ends = change_requests(Xids(), diff(limited, free), 1)
    assert len(inners(fill.data)) == 7
    assert [frame.kind for frame in frames(ends.data)] == [MessageType.METER_MOD, BARRIER]
    assert begins.subject_of(begins.first_xid) == "changing meters"


def test_change_requests__a_meter_alone_needs_no_bundle() -> None:
    slow, fast = (SwitchRules(meters=(MeterRule(1, rate, 160),)) for rate in (10, 20))
    (only,) = change_requests(Xids(), diff(slow, fast), 1)
    assert [frame.kind for frame in frames(only.data)] == [MessageType.METER_MOD, BARRIER]


# ── Requests for what a switch holds, and the answers ──────────────────────────────────────────────


@pytest.mark.parametrize("vlans", [False, True])
def test_read_rules__returns_what_was_installed(vlans: bool) -> None:
    """So a controller that reads its own rules finds no difference."""
    rules = in_vlans() if vlans else wanted(10_000)
    (fill, _) = change_requests(Xids(), diff(SwitchRules(), rules), 1)
    sent = inners(fill.data)
    flows = b"".join(fakes.entry_of_flow_mod(m) for m in sent if m.kind == MessageType.FLOW_MOD)
    groups = b"".join(fakes.entry_of_group_mod(m) for m in sent if m.kind == MessageType.GROUP_MOD)
    read = read_rules(flows, groups)
    assert set(read.flows) == set(rules.flows)
    assert set(read.groups) == set(rules.groups)
    assert len(diff(read, rules)) == 0


@pytest.mark.parametrize("treatment", [Treatment.WATCHED, Treatment.DEMOTED])
def test_read_rules__returns_the_rules_of_watched_ports_as_they_were_written(treatment: Treatment) -> None:
    limits_bps = {3: 1_000_000} if treatment is Treatment.DEMOTED else {}
    rules = policing_rules(PortTreatments({3: treatment}, limits_bps), EdgePorts()).flows
    assert len(rules) == (4 if treatment is Treatment.WATCHED else 7)
    assert {rule.meter for rule in rules} == {METER_SPACE + 3 if limits_bps else None}
    for rule in rules:
        assert read_rules(fakes.entry_of(rule), b"").flows == (rule,)


def in_vlans() -> SwitchRules:
    """The rules of a switch with an access port, a trunk at which the policy does not act, and a bond."""
    names = ("", "", "lag", "lag")
    vlans = (Vlans("access", 10), Vlans("native-untagged", 20, (10,)), None, None)
    ports = tuple(
        Port("s1", n, "", 0, 10**9, edge=True, vlans=of, bond=bond)
        for n, (of, bond) in enumerate(zip(vlans, names, strict=True), 1)
    )
    network = replace(single(), hosts=(), ports=ports, learns=True, unknown="flood")
    queues = mlfq_map([10_000], queues=2, untagged_queue=1)
    return switch_rules(network, "s1", {1: queues, 2: None, 3: queues, 4: queues})


def test_read_rules__a_rule_that_would_expire_is_foreign() -> None:
    entry = bytearray(flow_entry(cookie(Table.COMPLETED)))
    struct.pack_into("!H", entry, 14, 60)
    (rule,) = read_rules(bytes(entry), b"").flows
    assert rule.cookie != cookie(Table.COMPLETED)


def test_read_rules__an_action_that_sluice_never_uses_is_foreign() -> None:
    to_controller = struct.pack("!HHIHxxxxxx", 0, 16, 0xFFFFFFFD, 128)
    clear = struct.pack("!HHxxxx", 5, 8)
    apply = struct.pack("!HHxxxx", 4, 24) + to_controller
    body = flow_entry(instructions=apply) + flow_entry(instructions=clear)
    first, second = read_rules(body, b"").flows
    assert first.actions == (Output(0xFFFFFFFD),)
    assert isinstance(second.actions[0], Foreign)


def test_read_rules__a_group_of_another_type_is_foreign() -> None:
    indirect = struct.pack("!HBxI", 8, 2, 1)
    (group,) = read_rules(b"", indirect).groups
    assert isinstance(group.buckets[0].actions[0], Foreign)


def test_read_rules__leaves_out_what_the_switch_has_learned() -> None:
    assert read_rules(fakes.learned_entry(2, 1, 3, 300, fakes.TCP_FLOW), b"").flows == ()
    foreign = bytearray(fakes.learned_entry(2, 1, 3, 300, fakes.TCP_FLOW))
    foreign[24] ^= 1  # another cookie
    assert len(read_rules(bytes(foreign), b"").flows) == 1


def test_role_request__is_what_os_ken_writes() -> None:
    request = requests.role_request(Xids(), requests.Role.SLAVE, 2**40 + 3)
    message = parser.OFPRoleRequest(CODEC, ofp.OFPCR_ROLE_SLAVE, 2**40 + 3)
    assert request.data == written(message, request.first_xid)


def test_rules_request__has_one_transaction_id_for_each_message() -> None:
    xids = Xids()
    for turn in range(2):
        request = requests.rules_request(xids)
        sent = frames(request.data)
        assert [frame.xid for frame in sent] == [4 * turn + at for at in (1, 2, 3, 4)]
        assert [frame.kind for frame in sent] == [MessageType.MULTIPART_REQUEST] * 4
        kinds = (StatsType.GROUP_DESC, StatsType.METER_FEATURES, StatsType.METER_CONFIG, StatsType.FLOW)
        assert [frame.data[8:10] for frame in sent] == [struct.pack("!H", kind) for kind in kinds]
        subjects = ["reading groups", *[requests.READING_METERS] * 2, "reading rules"]
        assert [request.subject_of(frame.xid) for frame in sent] == subjects
        assert request.subject_of(sent[0].xid - 1) is request.subject_of(sent[-1].xid + 1) is None


@pytest.mark.parametrize("tags_below", [16, None])
def test_counters_request__selects_tags_by_the_cookie_mask(tags_below: int | None) -> None:
    (frame,) = frames(requests.counters_request(Xids(), Table.INGRESS, tags_below=tags_below).data)
    wanted, mask = struct.unpack_from("!QQ", frame.data, 32)
    assert mask & COOKIE_TABLE_MASK == COOKIE_TABLE_MASK
    selected = [tag for tag in range(62) if cookie(Table.INGRESS, 3, tag, 1) & mask == wanted & mask]
    assert selected == list(range(tags_below or 62))
    assert cookie(Table.MAP, 3, 1) & mask != wanted & mask
