# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.changes import Changes, Remap, diff
from sluice.controller.openflow.change import (
    change_requests,
    discard_message,
    instructions,
    os_ken_bucket,
    remap_requests,
)
from sluice.controller.openflow.frames import VERSION, MessageType
from sluice.controller.pipeline import map_rule, switch_rules
from sluice.controller.rules import FlowRule, GroupRule, SwitchRules
from sluice.policy import tags
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes.openflow import BUNDLE_ADD, BUNDLE_CONTROL, Xids, frames, inner
from tests.kit.networks import leaf_spine

CODEC = ofproto_protocol.ProtocolDesc(version=VERSION)
EXPERIMENTER, BARRIER = MessageType.EXPERIMENTER, MessageType.BARRIER_REQUEST


def wanted(edge_bytes: int) -> SwitchRules:
    topology = leaf_spine()
    queue_of = mlfq_map([edge_bytes], queues=2, untagged_queue=1)
    maps = {port.number: queue_of for port in topology.ports_of["s1"]}
    return switch_rules(topology, "s1", maps)


def test_change_requests__fill_a_bundle_and_then_commit_it_each_closed_by_a_barrier() -> None:
    changes = diff(wanted(10_000), wanted(20_000))
    fill, commit = change_requests(Xids(), changes, 9)
    kinds = [(f.kind, struct.unpack_from("!I", f.data, 12)[0]) for f in frames(fill.data)[:-1]]
    assert kinds == [(EXPERIMENTER, BUNDLE_CONTROL)] + [(EXPERIMENTER, BUNDLE_ADD)] * len(changes)
    assert [frame.kind for frame in frames(commit.data)] == [EXPERIMENTER, BARRIER]
    for request in (fill, commit):
        assert frames(request.data)[-1].xid == request.last_xid
        assert frames(request.data)[-1].kind == BARRIER


def test_change_requests__describe_every_message_by_its_transaction_id() -> None:
    changes = diff(wanted(10_000), wanted(20_000))
    fill, _ = change_requests(Xids(), changes, 9)
    added = [(frame, found) for frame in frames(fill.data) if (found := inner(frame))]
    assert [fill.subject_of(frame.xid) for frame, _ in added] == list(map(str, changes.modify.flows))
    assert fill.subject_of(fill.first_xid - 1) is fill.subject_of(fill.last_xid + 1) is None
    assert all(found.xid == frame.xid for frame, found in added)


def test_change_requests__without_changes_are_one_barrier() -> None:
    (only,) = change_requests(Xids(), Changes(), 9)
    assert [frame.kind for frame in frames(only.data)] == [BARRIER]


def test_discard_message__names_the_bundle() -> None:
    (frame,) = frames(discard_message(Xids(), 9))
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
        add = parser.ONFBundleAddMsg(CODEC, bundle_id, flags, message, [])
        add.set_xid(xid)
        add.serialize()
        yield bytes(add.buf)


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
        instructions=[] if deletes else instructions(rule),
    )


def group_mod(command: int, group: GroupRule) -> Any:
    buckets = [os_ken_bucket(bucket, group.kind) for bucket in group.buckets]
    return parser.OFPGroupMod(CODEC, command, int(group.kind), group.group, buckets)


@pytest.mark.parametrize(("tagged", "first_table"), [(True, 0), (False, 0), (True, 10)])
@given(
    moves=st.lists(
        st.tuples(st.integers(1, 0xFF00), st.integers(0, tags.TAG_COUNT), st.integers(0, 7)), max_size=50
    )
)
def test_remap_requests__are_byte_for_byte_the_modifications_one_by_one(
    tagged: bool, first_table: int, moves: list[tuple[int, int, int]]
) -> None:
    ports, codes, queues = np.asarray(moves, np.int64).reshape(-1, 3).T
    one_by_one = Changes(
        modify=SwitchRules(flows=tuple(map_rule(*move, priority_tag=tagged) for move in moves))
    )
    written = remap_requests(Xids(), Remap(ports, codes, queues, tagged), 3, first_table)
    assert [r.data for r in written] == [r.data for r in change_requests(Xids(), one_by_one, 3, first_table)]
    first_xid = written[0].first_xid
    assert [written[0].subject_of(first_xid + i) for i in range(1, len(moves) + 1)] == [
        str(rule) for rule in one_by_one.modify.flows
    ]
