# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from controller.changes import Changes, Remap, diff, remap
from controller.cookies import NOT_IP, cookie
from controller.openflow import change as openflow
from controller.openflow import frames as wire
from controller.openflow.change import OFP_VERSION
from controller.openflow.frames import Framer
from controller.pipeline import Table, conduct_rules, map_rule, switch_rules
from controller.rules import FlowRule, Foreign, SwitchRules
from policy import tags
from policy.queue_map import mlfq_map
from policy.sanctions import Treatment
from tests.unit.controller.networks import leaf_spine
from tests.unit.controller.openflow.test_frames import flow_entry

EXPERIMENTER, BUNDLE_ADD, BUNDLE_CONTROL = 4, 2301, 2300
FLOW_MOD, GROUP_MOD, BARRIER = 14, 15, 20


class FakeDatapath(ofproto_protocol.ProtocolDesc):
    def __init__(self):
        super().__init__(version=OFP_VERSION)
        self.last_xid = 0

    def reserve_xids(self, count):
        self.last_xid += count
        return self.last_xid - count + 1


def wanted(edge_bytes=10_000):
    topology = leaf_spine()
    queue_of = mlfq_map([edge_bytes], queues=2, untagged_queue=1)
    return switch_rules(topology, "s1", {port.number: queue_of for port in topology.ports_of["s1"]})


def frames(data):
    return list(Framer().feed(data))


def inner(frame):
    """The message within a bundle-add."""
    if frame.kind != EXPERIMENTER or struct.unpack_from("!I", frame.data, 12)[0] != BUNDLE_ADD:
        return None
    return frames(frame.data[24:])[0]


def as_stats(flow_mod):
    """What a switch that holds this rule answers: match and instructions are encoded alike."""
    cookie_, table = struct.unpack_from("!Q8xB", flow_mod.data, 8)
    priority = struct.unpack_from("!H", flow_mod.data, 30)[0]
    tail = flow_mod.data[48:]
    head = struct.pack("!HBxIIHHHHxxxxQQQ", 48 + len(tail), table, 1, 0, priority, 0, 0, 0, cookie_, 0, 0)
    return head + tail


def as_group_stats(group_mod):
    kind, number = struct.unpack_from("!xxBxI", group_mod.data, 8)
    tail = group_mod.data[16:]
    return struct.pack("!HBxI", 8 + len(tail), kind, number) + tail


def test_rules_survive_the_way_to_the_switch_and_back():
    """So that a controller that reads what it installed finds no difference."""
    rules = wanted()
    (fill, _) = openflow.change_requests(FakeDatapath(), diff(SwitchRules((), ()), rules), 1)
    messages = [m for frame in frames(fill.data) if (m := inner(frame))]
    flows = b"".join(as_stats(m) for m in messages if m.kind == FLOW_MOD)
    groups = b"".join(as_group_stats(m) for m in messages if m.kind == GROUP_MOD)
    read = openflow.read_rules(flows, groups)
    assert set(read.flows) == set(rules.flows)
    assert set(read.groups) == set(rules.groups)
    assert len(diff(read, rules)) == 0


def test_change_requests__one_bundle_filled_and_then_committed_each_step_closed_by_a_barrier():
    changes = diff(wanted(10_000), wanted(20_000))
    fill, commit = openflow.change_requests(FakeDatapath(), changes, 9)
    kinds = [(frame.kind, struct.unpack_from("!I", frame.data, 12)[0]) for frame in frames(fill.data)[:-1]]
    assert kinds == [(EXPERIMENTER, BUNDLE_CONTROL)] + [(EXPERIMENTER, BUNDLE_ADD)] * len(changes)
    assert [frame.kind for frame in frames(commit.data)] == [EXPERIMENTER, BARRIER]
    for request in (fill, commit):
        assert frames(request.data)[-1].xid == request.last_xid
        assert frames(request.data)[-1].kind == BARRIER


def test_change_requests__every_message_is_known_by_its_transaction_id():
    changes = diff(wanted(10_000), wanted(20_000))
    fill, _ = openflow.change_requests(FakeDatapath(), changes, 9)
    added = [frame for frame in frames(fill.data) if inner(frame)]
    assert [fill.about(frame.xid) for frame in added] == [str(rule) for rule in changes.modify]
    assert fill.about(fill.first_xid - 1) is fill.about(fill.last_xid + 1) is None
    assert all(inner(frame).xid == frame.xid for frame in added)


def test_change_requests__a_modification_is_strict_and_resets_no_counter():
    fill, _ = openflow.change_requests(FakeDatapath(), diff(wanted(10_000), wanted(20_000)), 9)
    for message in filter(None, map(inner, frames(fill.data))):
        command, flags = message.data[25], struct.unpack_from("!H", message.data, 44)[0]
        assert (command, flags) == (2, 0)


def test_change_requests__nothing_to_change_is_a_barrier():
    (only,) = openflow.change_requests(FakeDatapath(), Changes(), 9)
    assert [frame.kind for frame in frames(only.data)] == [BARRIER]


def test_read_rules__a_rule_that_would_expire_is_not_ours():
    entry = bytearray(flow_entry(cookie(Table.COMPLETED)))
    struct.pack_into("!H", entry, 14, 60)
    (rule,) = openflow.read_rules(bytes(entry), b"").flows
    assert rule.cookie != cookie(Table.COMPLETED)


def test_read_rules__an_action_that_we_never_use_is_foreign():
    to_controller = struct.pack("!HHIHxxxxxx", 0, 16, 0xFFFFFFFD, 128)
    meter = struct.pack("!HHI", 6, 8, 1)
    apply = struct.pack("!HHxxxx", 4, 24) + to_controller
    first, second = openflow.read_rules(
        flow_entry(instructions=apply) + flow_entry(instructions=meter), b""
    ).flows
    assert first.actions[0].port == 0xFFFFFFFD
    assert isinstance(second.actions[0], Foreign)


def test_change_requests__are_byte_for_byte_what_os_ken_writes():
    """Rules added, modified, deleted, groups of every kind."""
    held, want = wanted(10_000), wanted(20_000)
    for changes in (
        diff(SwitchRules((), ()), want),
        diff(held, want),
        diff(held, SwitchRules((), ())),
        diff(SwitchRules(want.groups[:1], ()), SwitchRules(tuple(reversed(want.groups)), ())),
    ):
        fill, _ = openflow.change_requests(FakeDatapath(), changes, 7)
        first, *added, _ = frames(fill.data)
        assert [frame.data for frame in added] == list(by_os_ken(changes, 7, first.xid + 1))


def by_os_ken(changes, bundle_id, first_xid):
    """The same messages, every one an object of os-ken's, in the order that the bundle has."""
    datapath = FakeDatapath()
    inners = [
        *(group_mod(datapath, ofp.OFPGC_ADD, group) for group in changes.add_groups),
        *(group_mod(datapath, ofp.OFPGC_MODIFY, group) for group in changes.modify_groups),
        *(flow_mod(datapath, ofp.OFPFC_DELETE_STRICT, rule) for rule in changes.delete),
        *(flow_mod(datapath, ofp.OFPFC_ADD, rule) for rule in changes.add),
        *(flow_mod(datapath, ofp.OFPFC_MODIFY_STRICT, rule) for rule in changes.modify),
        *(
            parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, number, [])
            for number in changes.delete_groups
        ),
    ]
    for xid, inner_message in enumerate(inners, first_xid):
        message = parser.ONFBundleAddMsg(
            datapath, bundle_id, ofp.ONF_BF_ATOMIC | ofp.ONF_BF_ORDERED, inner_message, []
        )
        message.set_xid(xid)
        message.serialize()
        yield bytes(message.buf)


def flow_mod(datapath, command, rule):
    deletes = command == ofp.OFPFC_DELETE_STRICT
    return parser.OFPFlowMod(
        datapath,
        cookie=0 if deletes else rule.cookie,
        table_id=rule.table,
        command=command,
        priority=rule.priority,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=parser.OFPMatch(**dict(rule.match)),
        instructions=[] if deletes else openflow._instructions(rule),
    )


def group_mod(datapath, command, group):
    buckets = [openflow._bucket(bucket, group.kind) for bucket in group.buckets]
    return parser.OFPGroupMod(datapath, command, int(group.kind), group.group, buckets)


@given(
    st.lists(
        st.tuples(st.integers(1, 0xFF00), st.integers(0, tags.TAG_COUNT), st.integers(0, 7)), max_size=50
    )
)
def test_remap_requests__are_byte_for_byte_the_modifications_one_by_one(moves):
    columns = np.asarray(moves, np.int64).reshape(-1, 3).T
    change = Remap(*columns)
    one_by_one = Changes(modify=tuple(map_rule(*move) for move in moves))
    written = openflow.remap_requests(FakeDatapath(), change, 3)
    assert [r.data for r in written] == [
        r.data for r in openflow.change_requests(FakeDatapath(), one_by_one, 3)
    ]
    assert [written[0].about(written[0].first_xid + i) for i in range(1, len(moves) + 1)] == [
        str(rule) for rule in one_by_one.modify
    ]


def test_remap__names_exactly_the_rules_that_differ():
    before = [mlfq_map([edge], queues=2, untagged_queue=1) for edge in (10_000, 20_000, 10_000)]
    after = [mlfq_map([edge], queues=2, untagged_queue=1) for edge in (10_000, 10_000, 20_000)]
    change = remap([4, 5, 9], before, after)
    assert {change.rule(i) for i in range(len(change))} == {
        map_rule(port, tag, queues[tag])
        for port, held, queues in zip([4, 5, 9], before, after, strict=True)
        for tag in range(tags.TAG_COUNT)
        if held[tag] != queues[tag]
    }
    assert len(remap([], [], [])) == 0


def test_role_request__as_os_ken_writes_it():
    asked = openflow.role_request(FakeDatapath(), openflow.Role.SLAVE, 2**40 + 3)
    message = parser.OFPRoleRequest(FakeDatapath(), ofp.OFPCR_ROLE_SLAVE, 2**40 + 3)
    message.set_xid(asked.first_xid)
    message.serialize()
    assert asked.data == bytes(message.buf)


def numbers(*ports):
    return np.asarray(ports, np.int64)


def test_completed_counts__adds_families_and_leaves_out_what_is_no_size():
    rows = [
        (cookie(Table.COMPLETED, 1, 9, 0), 3),
        (cookie(Table.COMPLETED, 1, 9, 1), 4),
        (cookie(Table.COMPLETED, 2, 40, 0), 5),
        (cookie(Table.COMPLETED, 2, tags.UNTAGGED), 100),
        (cookie(Table.COMPLETED, 2, tags.BACKGROUND), 100),
        (cookie(Table.COMPLETED), 1000),
    ]
    body = b"".join(flow_entry(c, n) for c, n in rows)
    counts, seen = openflow.completed_counts(body, numbers(1, 2))
    expected = np.zeros((2, 1, tags.ATTAINED_BUCKETS), np.int64)
    expected[0, 0, 8], expected[1, 0, 39] = 7, 5
    assert np.array_equal(counts, expected)
    assert seen.tolist() == [True, True]


def test_completed_counts__ports_that_the_switch_leaves_out_and_those_that_nobody_asked_about():
    body = b"".join(flow_entry(cookie(Table.COMPLETED, port, 9), port) for port in (2, 4, 6, 8))
    counts, seen = openflow.completed_counts(body, numbers(1, 4, 6, 7))
    assert counts[:, 0, 8].tolist() == [0, 4, 6, 0]
    assert counts.sum() == 10
    assert seen.tolist() == [False, True, True, False]


def test_carried_counts__by_port_and_tag_without_what_has_none():
    rows = [(1, 9, 3), (1, tags.UNTAGGED, 4), (2, tags.BACKGROUND, 5), (2, NOT_IP, 100)]
    body = b"".join(flow_entry(cookie(Table.MAP, port, code), n) for port, code, n in rows)
    counts, _ = openflow.carried_counts(body + flow_entry(cookie(Table.MAP), 1000), numbers(1, 2))
    expected = np.zeros((2, tags.TAG_COUNT), np.int64)
    expected[0, [9, tags.UNTAGGED]], expected[1, tags.BACKGROUND] = (3, 4), 5
    assert counts[:, 0].tolist() == expected.tolist()
    assert counts[:, 1].tolist() == (99 * (expected > 0)).tolist()


def test_queue_counts__by_port_with_the_queues_in_order():
    rows = [(2, 1, 150, 1), (1, 0, 10, 1), (2, 0, 300, 2)]
    body = b"".join(struct.pack("!IIQQQII", p, q, b, n, 0, 0, 0) for p, q, b, n in rows)
    counts = openflow.queue_counts(body)
    assert (counts[2].size_bytes, counts[2].packets) == ((300, 150), (2, 1))
    assert counts[1].size_bytes == (10,)


@pytest.mark.parametrize(("kind", "code", "words"), [(4, 9, "BAD_PREREQ"), (4, 999, "999"), (77, 1, "77")])
def test_error_text__says_what_it_can(kind, code, words):
    class Message:
        type = kind

    Message.code = code
    assert words in openflow.error_text(Message)


# ── Learned flows ──────────────────────────────────────────────────────────────────────────────────────────────────


def learned_entry(port, tag, packets, size_bytes, *, age_s=1, **match):
    """What Open vSwitch tells of a rule that it has learned."""
    fields = {"in_port": port, "eth_type": 0x0800, "ip_proto": 6, "ip_dscp": tag} | match
    body = openflow.rule_body(FlowRule(0, 0, tuple(fields.items())))
    number = cookie(Table.WITNESS, port)
    head = (48 + len(body), Table.WITNESS, age_s, 500_000_000, 1, 0, 2, 0, number, packets, size_bytes)
    return struct.pack("!HBxIIHHHHxxxxQQQ", *head) + body


ONE = {"ipv4_src": "10.0.0.2", "ipv4_dst": "10.0.0.1", "tcp_src": 4000, "tcp_dst": 80}


def test_witnessed__a_flow_is_told_of_under_all_of_its_tags():
    other = {"eth_type": 0x86DD, "ip_proto": 17, "ipv6_src": "fd00::2", "ipv6_dst": "fd00::1"}
    body = (
        learned_entry(2, 1, 3, 300, **ONE)
        + learned_entry(2, 5, 7, 700, age_s=4, **ONE)
        + learned_entry(3, 1, 9, 900, **ONE)
        + learned_entry(2, 0, 1, 100, udp_src=5000, udp_dst=53, **other)
    )
    first, same_elsewhere, second = openflow.witnessed(body)
    assert (first.port, first.name, first.age_s) == (2, "TCP 10.0.0.2:4000 > 10.0.0.1:80", 4.5)
    assert first.counts == {1: (3, 300), 5: (7, 700)}
    assert (same_elsewhere.port, same_elsewhere.counts) == (3, {1: (9, 900)})
    assert (second.name, second.size_bytes) == ("UDP [fd00::2]:5000 > [fd00::1]:53", 100)


def test_witnessed__later_fragments_are_of_no_flow_that_could_be_told():
    fragments = {"ip_proto": 17, "ipv4_src": "10.0.0.2", "ipv4_dst": "10.0.0.1", "udp_src": 0, "udp_dst": 0}
    assert openflow.witnessed(learned_entry(2, 1, 3, 300, **fragments)) == []


def test_witnessed__counters_that_are_not_supported_are_no_accusation_and_no_fault():
    (flow,) = openflow.witnessed(learned_entry(2, 1, 2**64 - 1, 2**64 - 1, **ONE))
    assert flow.by_tag().shape == (2, tags.TAG_COUNT)


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_witnessed__a_match_that_is_cut_off_is_a_violation(cut):
    entry = bytearray(learned_entry(2, 1, 3, 300, **ONE))
    struct.pack_into("!H", entry, 50, struct.unpack_from("!H", entry, 50)[0] - cut)
    with pytest.raises(wire.ProtocolViolation):
        openflow.witnessed(bytes(entry))


def test_read_rules__what_a_switch_has_learned_is_no_rule_of_ours_to_mend():
    assert openflow.read_rules(learned_entry(2, 1, 3, 300, **ONE), b"").flows == ()
    foreign = bytearray(learned_entry(2, 1, 3, 300, **ONE))
    foreign[24] ^= 1  # another cookie
    assert len(openflow.read_rules(bytes(foreign), b"").flows) == 1


@pytest.mark.parametrize("treatment", [Treatment.WATCHED, Treatment.DEMOTED])
def test_the_rules_of_watched_ports_are_read_back_as_they_were_written(treatment):
    rules = [rule for rule in conduct_rules({3: treatment}) if rule.match]
    assert len(rules) == (4 if treatment is Treatment.WATCHED else 6)
    for rule in rules:
        body = openflow.rule_body(rule)
        head = (48 + len(body), rule.table, 1, 0, rule.priority, 0, 0, 0, rule.cookie, 0, 0)
        told = struct.pack("!HBxIIHHHHxxxxQQQ", *head) + body
        assert openflow.read_rules(told, b"").flows == (rule,)
