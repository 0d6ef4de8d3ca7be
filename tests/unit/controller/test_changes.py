# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.controller.changes import diff, remap
from sluice.controller.pipeline import map_rule, switch_rules
from sluice.controller.rules import FlowRule, Foreign, GroupKind, GroupRule, MeterRule, SwitchRules
from sluice.controller.tables import Table
from sluice.policy import tags
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import QueueMap
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes.switch import FakeSwitch, Packet
from tests.kit.networks import leaf_spine, single

AT_10KB = mlfq_map([10_000], queues=2, untagged_queue=1)
AT_1MB = mlfq_map([1_000_000], queues=2, untagged_queue=1)


def rules_of(topology: Topology, switch: str, queue_map: QueueMap = AT_10KB) -> SwitchRules:
    return switch_rules(topology, switch, {port.number: queue_map for port in topology.ports_of[switch]})


def test_diff__thresholds_modify_only_the_tags_between_them_and_keep_the_counters() -> None:
    topology = single()
    switch = FakeSwitch(rules_of(topology, "s1"))
    switch.send(Packet(1, topology.host_by_name["h2"].mac, dscp=12))
    before = switch.packets.copy()
    changes = diff(switch.rules, rules_of(topology, "s1", AT_1MB))
    assert len(changes.modify.flows) == len(changes) == 3 * 16
    switch.apply(changes)
    assert switch.packets == before


_STRANGERS = [
    FlowRule(0, 65535, (("in_port", 1),), (Foreign("NORMAL"),)),
    FlowRule(Table.MAP, 10, (("metadata", (7 << 16 | 2, 0xFFFFFF)),), (Foreign("?"),), cookie=3),
    FlowRule(9, 1, ()),
]


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data())
def test_diff__leads_from_any_table_to_the_wanted_one(data: st.DataObject) -> None:
    """Rules are missing, changed or foreign, and groups are missing or wrong."""
    topology = leaf_spine()
    wanted = rules_of(topology, "s1", AT_1MB)
    old = rules_of(topology, "s1", data.draw(st.sampled_from([AT_10KB, AT_1MB])))
    drop = data.draw(st.sets(st.integers(0, len(old.flows) - 1), max_size=30))
    # A rule that leads into a group needs the group.
    groups = data.draw(st.sampled_from([old.groups, rules_of(leaf_spine(spines=3), "s1").groups]))
    held = FakeSwitch(
        SwitchRules(
            (*groups, GroupRule(77, GroupKind.ALL, ())),
            tuple(rule for i, rule in enumerate(old.flows) if i not in drop),
        )
    )
    for stranger in data.draw(st.lists(st.sampled_from(_STRANGERS), unique=True)):
        held.flows[stranger.key] = stranger
    held.apply(diff(held.rules, wanted))
    assert held.flows == FakeSwitch(wanted).flows
    assert held.groups == FakeSwitch(wanted).groups
    assert len(diff(held.rules, wanted)) == 0


def test_diff__corrects_the_meters_of_a_switch() -> None:
    right, wrong, foreign = MeterRule(1, 100, 160), MeterRule(2, 100, 160), MeterRule(9, 5, 5)
    wanted = SwitchRules(meters=(right, MeterRule(2, 200, 160), MeterRule(3, 1, 160)))
    change = diff(SwitchRules(meters=(right, wrong, foreign)), wanted)
    assert (change.add.meters, change.modify.meters, change.delete.meters) == (
        (MeterRule(3, 1, 160),),
        (MeterRule(2, 200, 160),),
        (foreign,),
    )
    assert (len(change), change.bundled) == (3, 0)


def test_remap__names_exactly_the_rules_that_differ() -> None:
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
