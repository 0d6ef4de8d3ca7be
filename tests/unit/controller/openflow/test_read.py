# SPDX-License-Identifier: Apache-2.0
"""Requests for what a switch holds, and the answers."""

from __future__ import annotations

import struct

import pytest
from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.changes import diff
from sluice.controller.openflow.change import change_requests
from sluice.controller.openflow.frames import VERSION, MessageType, StatsType
from sluice.controller.openflow.read import read_rules
from sluice.controller.openflow.request import (
    READING_METERS,
    Role,
    counters_request,
    role_request,
    rules_request,
)
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules
from sluice.controller.rules import Foreign, MatchValue, Output, SwitchRules
from sluice.controller.tables import COOKIE_TABLE_MASK, METER_SPACE, Table, cookie
from sluice.policy.policing.limits import Treatment
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes.openflow import (
    Xids,
    entry_of,
    entry_of_flow_mod,
    entry_of_group_mod,
    flow_entry,
    frames,
    inners,
    learned_entry,
)
from tests.kit.networks import leaf_spine

FLOW: dict[str, MatchValue] = {"ipv4_src": "10.0.0.2", "ipv4_dst": "10.0.0.1", "tcp_src": 4000, "tcp_dst": 80}


def test_read_rules__returns_what_was_installed() -> None:
    """So a controller that reads its own rules finds no difference."""
    topology = leaf_spine()
    queue_of = mlfq_map([10_000], queues=2, untagged_queue=1)
    maps = {port.number: queue_of for port in topology.ports_of["s1"]}
    rules = switch_rules(topology, "s1", maps)
    (fill, _) = change_requests(Xids(), diff(SwitchRules(), rules), 1)
    sent = inners(fill.data)
    flows = b"".join(entry_of_flow_mod(m) for m in sent if m.kind == MessageType.FLOW_MOD)
    groups = b"".join(entry_of_group_mod(m) for m in sent if m.kind == MessageType.GROUP_MOD)
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
        assert read_rules(entry_of(rule), b"").flows == (rule,)


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
    assert read_rules(learned_entry(2, 1, 3, 300, FLOW), b"").flows == ()
    foreign = bytearray(learned_entry(2, 1, 3, 300, FLOW))
    foreign[24] ^= 1  # another cookie
    assert len(read_rules(bytes(foreign), b"").flows) == 1


def test_role_request__is_what_os_ken_writes() -> None:
    request = role_request(Xids(), Role.SLAVE, 2**40 + 3)
    codec = ofproto_protocol.ProtocolDesc(version=VERSION)
    message = parser.OFPRoleRequest(codec, ofp.OFPCR_ROLE_SLAVE, 2**40 + 3)
    message.set_xid(request.first_xid)
    message.serialize()
    assert request.data == bytes(message.buf)


def test_rules_request__has_one_transaction_id_for_each_message() -> None:
    xids = Xids()
    for turn in range(2):
        request = rules_request(xids)
        sent = frames(request.data)
        assert [frame.xid for frame in sent] == [4 * turn + at for at in (1, 2, 3, 4)]
        assert [frame.kind for frame in sent] == [MessageType.MULTIPART_REQUEST] * 4
        kinds = (StatsType.GROUP_DESC, StatsType.METER_FEATURES, StatsType.METER_CONFIG, StatsType.FLOW)
        assert [frame.data[8:10] for frame in sent] == [struct.pack("!H", kind) for kind in kinds]
        subjects = ["reading groups", READING_METERS, READING_METERS, "reading rules"]
        assert [request.subject_of(frame.xid) for frame in sent] == subjects
        assert request.subject_of(sent[0].xid - 1) is request.subject_of(sent[-1].xid + 1) is None


@pytest.mark.parametrize("tags_below", [16, None])
def test_counters_request__selects_tags_by_the_cookie_mask(tags_below: int | None) -> None:
    (frame,) = frames(counters_request(Xids(), Table.INGRESS, tags_below=tags_below).data)
    wanted, mask = struct.unpack_from("!QQ", frame.data, 32)
    assert mask & COOKIE_TABLE_MASK == COOKIE_TABLE_MASK
    selected = [tag for tag in range(62) if cookie(Table.INGRESS, 3, tag, 1) & mask == wanted & mask]
    assert selected == list(range(tags_below or 62))
    assert cookie(Table.MAP, 3, 1) & mask != wanted & mask
