# SPDX-License-Identifier: Apache-2.0
"""One switch: how it comes to what it should hold, and the settings of its ports."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.controller.changes import Remap
from sluice.controller.port_settings import PortSettings, ThresholdsInForce
from sluice.controller.rules import Output, PushVlan, SwitchRules
from sluice.controller.state import MS, RETRY_NS, Change, Desired, Periods, ReadRules
from sluice.controller.tables import NORMAL, Table
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS, Host
from sluice.policy.network.vlans import Vlans
from sluice.policy.schema.desired import Policy
from tests.fakes.switch import IPV4, IPV6, FakeSwitch, Packet
from tests.kit.controller import counted
from tests.kit.networks import single
from tests.unit.controller.driven import KB, DrivenSwitch, as_changes, fresh, policy, port_counts, settled

# ── Coming to rest ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wanted", [policy("tcp"), policy(thresholds=["10KB"], queues=2)])
def test_an_empty_switch_gets_all_rules_and_implements_the_version(wanted: Policy) -> None:
    desired = Desired(single(), 5, wanted)
    driven = DrivenSwitch(desired)
    assert driven.state.version is None
    driven.settle()
    assert driven.state.version == 5
    snapped = tuple(tags.snap_to_edge(t) for t in wanted.thresholds)
    assert driven.switch.flows == fresh(desired, dict.fromkeys(["s1:1", "s1:2", "s1:3"], snapped)).flows
    assert [(n.port, n.version, n.thresholds_bytes, n.flows) for n in driven.news] == [
        (f"s1:{i}", 5, snapped, 0) for i in (1, 2, 3)
    ]


def test_a_switch_that_is_right_is_not_touched() -> None:
    desired = Desired(single(), 1, policy("pias"))
    first = DrivenSwitch(desired)
    first.settle()
    second = DrivenSwitch(desired, first.switch)
    second.settle()
    assert [len(changes) for changes in second.changes] == [0]
    assert second.state.version == 1


def test_a_switch_with_vlans_or_bonds_keeps_its_own_forwarding_until_it_has_none() -> None:
    adaptive = policy(thresholds=["10KB"], queues=2)
    driven = settled(adaptive)
    held = driven.switch.flows
    driven.state.want(Desired(single(), 1, adaptive, bridging=frozenset({"s1"})))
    driven.settle()
    assert [(rule.match, rule.actions) for rule in driven.switch.flows.values()] == [((), (Output(NORMAL),))]
    assert driven.state.version == 1
    driven.now_ns += 10_000 * MS
    assert driven.state.next_operation(driven.now_ns) is None, "its counters say nothing"
    driven.state.want(Desired(single(), 1, adaptive))
    driven.settle()
    assert driven.switch.flows == held


def test_a_restarted_controller_keeps_learned_thresholds() -> None:
    topology, adaptive = single(), policy(thresholds=["1000KB"], queues=2)
    first = DrivenSwitch(Desired(topology, 1, adaptive))
    first.run(2_000, 1, lambda: 10 * KB)
    learned = {f"s1:{i}": first.thresholds(f"s1:{i}") for i in (1, 2, 3)}
    assert learned["s1:1"] != learned["s1:2"]
    second = DrivenSwitch(Desired(topology, 1, adaptive, learned), first.switch)
    second.settle()
    assert [len(changes) for changes in second.changes] == [0]


def test_a_static_scheme_ignores_what_was_learned() -> None:
    desired = Desired(single(), 1, policy("pias", queues=2, thresholds=["10KB"]), {"s1:1": (KB,)})
    driven = DrivenSwitch(desired)
    driven.settle()
    assert driven.thresholds("s1:1") == (10 * KB,)


def test_a_switch_that_lost_its_rules_gets_them_back_with_the_thresholds_it_had() -> None:
    driven = DrivenSwitch(Desired(single(), 1, policy(thresholds=["1000KB"], queues=2)))
    driven.run(2_000, 1, lambda: 10 * KB)
    before = dict(driven.switch.flows)
    driven.switch = FakeSwitch()
    driven.state.connected(driven.now_ns)
    assert driven.state.version is None
    driven.settle()
    assert driven.switch.flows == before
    assert driven.state.version == 1


def test_a_refused_change_is_tried_again_after_a_while_from_what_the_switch_holds() -> None:
    driven = DrivenSwitch(Desired(single(), 1, policy("pias")))
    assert driven.state.next_operation(0) == ReadRules()
    driven.state.rules_read(SwitchRules())
    assert isinstance(driven.state.next_operation(0), Change)
    driven.state.refused(0)
    assert driven.state.next_operation(RETRY_NS - 1) is None
    assert driven.state.next_operation(RETRY_NS) == ReadRules()
    assert driven.state.version is None


# ── Policies ───────────────────────────────────────────────────────────────────────────────────


def test_want__changes_only_the_rules_whose_queue_changes() -> None:
    driven = settled(policy("pias", queues=2, thresholds=["10KB"]))
    driven.want(2, policy("pias", queues=2, thresholds=["20KB"]))
    (changes,) = driven.changes[1:]
    assert isinstance(changes, Remap)
    assert len(changes) == 3 * 2  # the buckets up to 13.3 KB and 17.8 KB
    assert driven.state.version == 2


def test_want__a_policy_that_changes_no_rule_is_acknowledged_too() -> None:
    driven = settled(policy("tcp"))
    driven.state.want(Desired(single(), 2, policy("dctcp")))
    assert driven.state.version == 1
    driven.settle()
    assert [len(changes) for changes in driven.changes[1:]] == [0]
    assert driven.state.version == 2
    assert [n.version for n in driven.news[3:]] == [2, 2, 2]


def test_want__keeps_learned_thresholds_if_only_the_interval_changes() -> None:
    adaptive = policy(thresholds=["1000KB"], queues=2)
    driven = DrivenSwitch(Desired(single(), 1, adaptive))
    driven.run(2_000, 1, lambda: 10 * KB)
    driven.want(2, replace(adaptive, interval_ms=200, window_ms=1000))
    assert driven.thresholds("s1:1") == (10 * KB,)
    assert len(driven.changes[-1]) == 0


def test_want__starts_again_if_the_policy_has_other_thresholds() -> None:
    driven = DrivenSwitch(Desired(single(), 1, policy(thresholds=["1000KB"], queues=2)))
    driven.run(2_000, 1, lambda: 10 * KB)
    driven.want(2, policy(thresholds=["1KB"], queues=2))
    assert driven.thresholds("s1:1") == (KB,)


def test_want__a_running_change_ends_before_the_next() -> None:
    """The acknowledged version is the one that was sent, not the newer desired one."""
    driven = settled(policy("pias"))
    driven.state.want(Desired(single(), 2, policy("pias", queues=2, thresholds=["10KB"])))
    operation = driven.state.next_operation(0)
    assert isinstance(operation, Change)
    driven.state.want(Desired(single(), 3, policy("pias", queues=2, thresholds=["20KB"])))
    driven.switch.apply(as_changes(operation.changes))
    driven.state.applied()
    assert driven.state.version == 2
    driven.settle()
    assert driven.state.version == 3
    assert driven.thresholds("s1:1") == (tags.snap_to_edge(20 * KB),)


def installing(driven: DrivenSwitch) -> None:
    """All rules of a switch that has just connected."""
    driven.state.connected(0)
    driven.state.next_operation(0)
    driven.state.rules_read(driven.switch.rules)


def moving(driven: DrivenSwitch) -> None:
    """The thresholds of one port."""
    driven.state._settings.want(1, [20 * KB])


def learning(driven: DrivenSwitch) -> None:
    """The rules of another host."""
    visitor = Host("visitor", "02:00:00:00:00:99", "", "", port="s1:2")
    topology = replace(driven.desired.topology, hosts=(*single().hosts, visitor))
    driven.state.want(replace(driven.desired, topology=topology))


@pytest.mark.parametrize("begin", [installing, moving, learning])
def test_want__acting_elsewhere_during_a_change_is_not_lost(begin: Callable[[DrivenSwitch], None]) -> None:
    watching = policy("pias", queues=2, thresholds=["10KB"], acts_at=[])
    driven = settled(watching)
    begin(driven)
    operation = driven.state.next_operation(0)
    assert isinstance(operation, Change)
    wanted = Desired(single(), 2, replace(watching, acts_at=("s1:3",)))
    driven.state.want(wanted)
    driven.switch.apply(as_changes(operation.changes))
    assert driven.state.applied() == []
    driven.settle()
    assert driven.state.version == 2
    expected = DrivenSwitch(wanted)
    expected.settle()
    assert driven.switch.flows == expected.switch.flows


# ── Overrides ──────────────────────────────────────────────────────────────────────────────────


def adaptive(*overrides: dict[str, Any], **fields: Any) -> Policy:
    return policy(thresholds=["1000KB"], queues=2, overrides=list(overrides), **fields)


def test_overrides__thresholds_by_hand_stay_and_the_other_ports_adapt() -> None:
    wanted = adaptive({"ports": ["s1:1"], "thresholds": ["20KB"]})
    driven = DrivenSwitch(Desired(single(), 1, wanted))
    driven.run(2_000, 1, lambda: 10 * KB)
    assert driven.thresholds("s1:1") == (tags.snap_to_edge(20 * KB),)
    driven.carries(2, counted([10 * KB] * 1000))
    driven.run(200)
    driven.carries(2, counted([10 * KB] * 1000))
    driven.run(200)
    assert driven.thresholds("s1:2") == (10 * KB,)


def test_overrides__freeze_keeps_what_is_in_force_and_without_it_adaptation_goes_on() -> None:
    driven = DrivenSwitch(Desired(single(), 1, adaptive()))
    driven.run(2_000, 1, lambda: 10 * KB)
    assert driven.thresholds("s1:1") == (10 * KB,)
    driven.state.want(Desired(single(), 2, adaptive({"ports": ["s1:*"], "freeze": True})))
    driven.run(2_000, 1, lambda: 100 * KB)
    assert driven.thresholds("s1:1") == (10 * KB,)
    assert driven.state.version == 2
    assert {n.version for n in driven.news[-3:]} == {2}
    driven.state.want(Desired(single(), 3, adaptive()))
    driven.run(2_000, 1, lambda: 100 * KB)
    assert driven.thresholds("s1:1") == (100 * KB,)


def test_overrides__freeze_holds_also_when_the_policy_starts_elsewhere() -> None:
    driven = DrivenSwitch(Desired(single(), 1, adaptive()))
    driven.run(2_000, 1, lambda: 10 * KB)
    frozen = policy(queues=2, thresholds=["1KB"], overrides=[{"ports": ["s1:1"], "freeze": True}])
    driven.state.want(Desired(single(), 2, frozen))
    driven.run(1_000, 1, lambda: 100 * KB)
    assert driven.thresholds("s1:1") == (10 * KB,)
    assert driven.thresholds("s1:3") == (KB,)


def test_overrides__at_a_static_scheme_change_one_ports_rules_and_go_back() -> None:
    plain = policy("pias", queues=2, thresholds=["10KB"])
    fixed = policy(
        "pias", queues=2, thresholds=["10KB"], overrides=[{"ports": ["s1:2"], "thresholds": ["20KB"]}]
    )
    driven = settled(plain)
    before = dict(driven.switch.flows)
    driven.want(2, fixed)
    modified = as_changes(driven.changes[-1]).modify.flows
    assert {rule.actions[-1] for rule in modified} == {Output(2)}
    assert driven.thresholds("s1:2") == (tags.snap_to_edge(20 * KB),)
    driven.want(3, plain)
    assert driven.switch.flows == before


def test_a_port_that_some_replies_leave_out_has_seen_no_burst() -> None:
    """When its counters are reported again, only their growth since the last report counts."""
    driven = settled(adaptive(min_flows=50, robust_ends=False))
    ends = np.zeros((3, INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64)
    missing = port_counts(np.zeros_like(ends), reported=[False, True, True])
    ends[:, TRUNKS, 8] = 1_000_000
    later = ends.copy()
    later[:, TRUNKS, 8] += 7
    for at_ns, counts in enumerate((port_counts(ends), missing, port_counts(later)), start=1):
        driven.state.observe_carried(driven.carried_counts())
        driven.state.observe_completed(at_ns, counts)
    assert driven.state._adaptation.flows[0] == 7


def turn_of(sizes: list[int], driven: DrivenSwitch) -> int:
    return sizes[len(driven.news) % len(sizes)]


@pytest.mark.slow
@settings(max_examples=10)
@given(st.data())
def test_after_any_sequence_of_changes_the_table_equals_a_fresh_install(data: st.DataObject) -> None:
    """At any time there is one rule for each tag, and at rest it is the right one."""
    queues = data.draw(st.sampled_from([2, 3, 8]))
    adaptive = policy(queues=queues, min_flows=1)
    driven = settled(adaptive)
    for version in range(2, data.draw(st.integers(3, 8))):
        if data.draw(st.booleans()):
            wanted = data.draw(st.sampled_from([adaptive, policy("tcp"), policy("pias"), policy()]))
            driven.desired = Desired(single(), version, wanted)
            driven.state.want(driven.desired)
        sizes = data.draw(st.lists(st.sampled_from(tags.EDGES_BYTES), min_size=1, max_size=5))
        driven.run(300, 1, partial(turn_of, sizes, driven))
        assert driven.mapped_at_all_times
        in_force = {f"s1:{i}": driven.thresholds(f"s1:{i}") for i in (1, 2, 3)}
        assert driven.switch.flows == fresh(driven.desired, in_force).flows
    packet = Packet(2, driven.desired.topology.hosts[0].mac)
    for dscp in range(64):
        for family in (IPV4, IPV6):
            assert len(driven.switch.send(replace(packet, dscp=dscp, eth_type=family))) == 1


# ── Networks that Sluice did not make ──────────────────────────────────────────────────────────


def test_another_host_changes_only_forwarding_rules() -> None:
    topology = replace(single(), learns=True)
    driven = DrivenSwitch(Desired(topology, 1, policy("pias")))
    driven.settle()
    visitor = Host("visitor", "02:00:00:00:00:99", "", "", port="s1:2")
    driven.state.want(Desired(replace(topology, hosts=(*topology.hosts, visitor)), 1, policy("pias")))
    driven.settle()
    change = as_changes(driven.changes[-1])
    assert [(rule.table, rule.match) for rule in change.add.flows] == [
        (Table.FORWARD, (("eth_dst", visitor.mac),))
    ]
    assert len(change) == 1
    assert driven.switch.send(Packet(1, visitor.mac))[0].port == 2


def test_a_policy_that_only_watches_computes_thresholds_and_chooses_no_queue() -> None:
    watching = policy(thresholds=["1000KB"], queues=2, acts_at=[])
    driven = DrivenSwitch(Desired(single(), 1, watching))
    driven.run(2_000, 1, lambda: 10 * KB)
    assert driven.thresholds("s1:1") != (tags.snap_to_edge(1000 * KB),), "it still follows the traffic"
    outputs = [
        rule.actions for rule in driven.switch.flows.values() if rule.table == Table.MAP and rule.match
    ]
    assert all(actions == (Output(actions[-1].port),) for actions in outputs)  # type: ignore[union-attr]


def test_a_canary_acts_at_its_ports_only_and_back() -> None:
    driven = settled(policy("pias", acts_at=[]))
    before = dict(driven.switch.flows)
    for version, ports in ((2, ["s1:2"]), (3, [])):
        driven.desired = Desired(single(), version, policy("pias", acts_at=ports))
        driven.state.want(driven.desired)
        driven.settle()
        acting = {Packet(1 if port != 1 else 2, f"02:00:00:00:00:0{port}", dscp=61) for port in (1, 2, 3)}
        chosen = {s.port for packet in acting for s in driven.switch.send(packet) if s.queue}
        assert chosen == ({2} if ports else set())
    assert driven.switch.flows == before


def test_only_ports_with_the_port_program_get_priority_tags() -> None:
    topology = replace(single(), learns=True)
    driven = DrivenSwitch(Desired(topology, 1, policy("pias"), programmed=frozenset({"s1:2"})))
    driven.settle()
    tagged = {rule.match for rule in driven.switch.flows.values() if PushVlan() in rule.actions}
    ports = [int(value[0]) & 0xFFFF for ((_, value),) in tagged if isinstance(value, tuple)]
    assert set(ports) == {2}


def test_vlans__the_header_carries_the_queue_where_the_policy_acts__and_thresholds_move_as_elsewhere() -> (
    None
):
    """The header comes off in the table of destinations, so that table follows where the policy acts."""
    ports = tuple(replace(port, vlans=Vlans("access", 10)) for port in single().ports)
    network = replace(
        single(), ports=ports, hosts=tuple(replace(h, vlan=10) for h in single().hosts), learns=True
    )
    adaptive = policy(thresholds=["1000KB"], queues=2)
    driven = DrivenSwitch(Desired(network, 1, adaptive))
    driven.settle()
    to_h2 = Packet(1, network.hosts[1].mac, dscp=61)
    assert [(one.port, one.pcp, one.vlan) for one in driven.switch.send(to_h2)] == [(2, 1, 0)]
    driven.run(2_000, 1, lambda: 10 * KB)
    moved = [changes for changes in driven.changes if isinstance(changes, Remap) and len(changes)]
    assert moved, "thresholds have moved"
    thresholds = {port.id: driven.thresholds(port.id) for port in ports}
    assert driven.switch.flows == fresh(Desired(network, 1, adaptive), thresholds).flows
    driven.state.want(Desired(network, 1, adaptive, programmed=frozenset()))
    driven.settle()
    assert [(one.port, one.pcp, one.vlan) for one in driven.switch.send(to_h2)] == [(2, None, None)]


# ── Periods ───────────────────────────────────────────────────────────────────────────────────

PERIODS = st.integers(1, 10_000)
PHASES = st.floats(0, 1, exclude_max=True)
TIMES = st.integers(0, 10**15)
STEPS = st.lists(st.integers(0, 30_000), max_size=60)


def grid_index(now_ns: int, period_ns: int, phase: float) -> int:
    """Return the number of the latest grid time up to now."""
    return (now_ns - int(phase * period_ns)) // period_ns


@given(PERIODS, PHASES, TIMES, STEPS)
def test_take__every_grid_time_that_a_caller_does_not_miss(
    period_ns: int, phase: float, start_ns: int, steps_ns: list[int]
) -> None:
    """A task is due exactly if the grid has advanced since the last check."""
    periods = Periods({"poll": period_ns}, phase)
    periods.restart(start_ns)
    now_ns = start_ns
    for step_ns in steps_ns:
        before = grid_index(now_ns, period_ns, phase)
        now_ns += step_ns
        assert periods.take("poll", now_ns) == (grid_index(now_ns, period_ns, phase) > before)


@given(PERIODS, PERIODS, PHASES, TIMES)
def test_change__counts_from_the_next_time_on(
    before_ns: int, after_ns: int, phase: float, start_ns: int
) -> None:
    changed, unchanged = (Periods({"poll": before_ns}, phase) for _ in range(2))
    for periods in (changed, unchanged):
        periods.restart(start_ns)
    changed.change("poll", after_ns)
    due_ns = next(
        now_ns for now_ns in range(start_ns, start_ns + before_ns + 1) if unchanged.is_due("poll", now_ns)
    )
    assert not changed.is_due("poll", due_ns - 1)
    assert changed.take("poll", due_ns)
    next_ns = (grid_index(due_ns, after_ns, phase) + 1) * after_ns + int(phase * after_ns)
    assert not changed.is_due("poll", next_ns - 1)
    assert changed.take("poll", next_ns)


# ── Settings of the ports ──────────────────────────────────────────────────────────────────────

POLICY = Policy.from_document({"scheme": "pias", "queues": 2, "thresholds": ["10KB"]})
SMALL, MIDDLE, LARGE = tags.EDGES_BYTES[4], tags.EDGES_BYTES[8], tags.EDGES_BYTES[12]


@pytest.fixture
def at_ports() -> PortSettings:
    """Ports 1 to 3 with desired thresholds of version 1, and nothing in force."""
    return PortSettings(single().ports_of["s1"], POLICY, 1, [[MIDDLE]] * 3, ALL)


ALL = frozenset({"s1:1", "s1:2", "s1:3"})


def come_to_rest(at_ports: PortSettings) -> None:
    at_ports.begin_all()
    at_ports.applied()


def news(port: int, version: int, threshold: int, flows: int = 0) -> ThresholdsInForce:
    return ThresholdsInForce(f"s1:{port}", version, (threshold,), flows)


def test_a_port_that_moves_during_a_change_still_differs_after_it(at_ports: PortSettings) -> None:
    come_to_rest(at_ports)
    at_ports.want(0, [SMALL])
    at_ports.begin_differences()
    at_ports.want(1, [LARGE])
    assert at_ports.applied() == [news(1, 1, SMALL)]
    assert at_ports.outdated
    at_ports.begin_differences()
    at_ports.want(1, [SMALL])
    assert at_ports.applied() == [news(2, 1, LARGE)]
    assert at_ports.outdated
    assert set(at_ports.begin_differences().ports.tolist()) == {2}
