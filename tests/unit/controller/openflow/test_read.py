# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest

from sluice.controller.changes import diff
from sluice.controller.openflow import MessageType, change_requests, read_rules
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules
from sluice.controller.rules import Foreign, MatchValue, Output, SwitchRules
from sluice.controller.tables import METER_SPACE, Table, cookie
from sluice.policy.policing.limits import Treatment
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes.openflow import (
    Xids,
    entry_of,
    entry_of_flow_mod,
    entry_of_group_mod,
    flow_entry,
    inners,
    learned_entry,
)
from tests.unit.controller.networks import leaf_spine

FLOW: dict[str, MatchValue] = {"ipv4_src": "10.0.0.2", "ipv4_dst": "10.0.0.1", "tcp_src": 4000, "tcp_dst": 80}


def test_read_rules__returns_what_was_installed() -> None:
    """So a controller that reads its own rules finds no difference."""
    topology = leaf_spine()
    queue_of = mlfq_map([10_000], queues=2, untagged_queue=1)
    maps = {port.number: queue_of for port in topology.ports_of["s1"]}
    rules = switch_rules(topology, "s1", maps)
    (fill, _) = change_requests(Xids(), diff(SwitchRules((), ()), rules), 1)
    sent = inners(fill.data)
    flows = b"".join(entry_of_flow_mod(m) for m in sent if m.kind == MessageType.FLOW_MOD)
    groups = b"".join(entry_of_group_mod(m) for m in sent if m.kind == MessageType.GROUP_MOD)
    read = read_rules(flows, groups)
    assert set(read.flows) == set(rules.flows)
    assert set(read.groups) == set(rules.groups)
    assert len(diff(read, rules)) == 0


@pytest.mark.parametrize("treatment", [Treatment.WATCHED, Treatment.DEMOTED])
def test_read_rules__returns_the_rules_of_watched_ports_as_they_were_written(
    treatment: Treatment,
) -> None:
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
