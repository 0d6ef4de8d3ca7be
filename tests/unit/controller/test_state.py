# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.changes import Changes, Remap
from controller.openflow.change import Counted
from controller.pipeline import Table, switch_rules
from controller.policing import FlowSeen, Restored
from controller.rules import SwitchRules
from controller.state import (
    MS,
    QUEUE_POLL_NS,
    RETRY_NS,
    Change,
    Desired,
    PollCarried,
    PollCompleted,
    PollIngress,
    PollQueues,
    PollWitness,
    ReadRules,
    SwitchState,
)
from policy import tags
from policy.desired import Policy
from policy.queue_map import queue_map
from policy.sanctions import Demoted
from tests.fakes.switch import IPV4, IPV6, FakeSwitch, Packet
from tests.unit.controller.networks import single
from tests.unit.policy.port_counters import counted, nothing, plus

KB = 1_000


def policy(scheme="mlfq-adaptive", **fields):
    return Policy.from_document({"scheme": scheme, **fields})


class Network:
    """One switch in memory and its state machine, driven to rest or through time."""

    def __init__(self, desired, switch=None):
        self.desired = desired
        self.switch = switch or FakeSwitch()
        self.now_ns = 0
        self.state = SwitchState("s1", desired)
        self.state.connected(self.now_ns)
        self.completed = {p.number: np.zeros(tags.ATTAINED_BUCKETS, np.int64) for p in desired.topology.ports}
        self.carried = {p.number: nothing() for p in desired.topology.ports}
        self.ingress = np.zeros((len(self.state.edge_numbers), 2, tags.TAG_COUNT), np.int64)
        self.witnesses = []
        self.changes = []
        self.news = []
        self.mapped_at_all_times = True

    def settle(self):
        """Do everything that is due now."""
        while (operation := self.state.next_operation(self.now_ns)) is not None:
            match operation:
                case ReadRules():
                    self.state.rules_read(self.switch.rules)
                case Change(changes):
                    self.switch.apply(as_changes(changes))
                    self.changes.append(changes)
                    self.news += self.state.applied()
                    self.mapped_at_all_times &= everything_is_mapped(self.switch, self.desired.topology)
                case PollCarried():
                    self.state.carried(
                        told([np.stack([c.packets[0], c.bytes[0]]) for c in self.carried.values()])
                    )
                case PollCompleted():
                    self.state.counted(self.now_ns, told([c[None] for c in self.completed.values()]))
                case PollIngress(all_tags):
                    self.state.ingress(self.now_ns, told(list(self.ingress)), all_tags=all_tags)
                case PollWitness():
                    self.state.witnessed(self.now_ns, self.witnesses)

    def run(self, duration_ms, flows_per_ms=0, draw=None, step_ms=10):
        """Let time pass while flows of sizes `draw()` complete at port 1; returns its thresholds after each step."""
        history = []
        for _ in range(0, duration_ms, step_ms):
            self.now_ns += step_ms * MS
            for _ in range(flows_per_ms * step_ms):
                self.completed[1][tags.attained_tag(draw()) - tags.ATTAINED_FIRST] += 1
            self.settle()
            history.append(self.thresholds("s1:1"))
        return history

    def thresholds(self, port):
        return next(news.thresholds_bytes for news in reversed(self.news) if news.port == port)


def told(rows, seen=None):
    """Counters as they come from the wire."""
    return Counted(np.stack(rows), np.ones(len(rows), bool) if seen is None else np.asarray(seen))


def as_changes(changes):
    """A remap rule by rule."""
    if isinstance(changes, Changes):
        return changes
    return Changes(modify=tuple(changes.rule(i) for i in range(len(changes))))


def everything_is_mapped(switch, topology):
    """Every port has exactly one rule for every tag, and it names one queue."""
    maps = [rule for rule in switch.flows.values() if rule.table == Table.MAP and rule.match]
    return len(maps) == len(topology.ports) * (tags.TAG_COUNT + 1)


def fresh(desired, thresholds_of):
    """What a new controller would install for these thresholds by port id."""
    maps = {p.number: queue_map(desired.policy, thresholds_of[p.id]) for p in desired.topology.ports}
    return FakeSwitch(switch_rules(desired.topology, "s1", maps))


# ── Coming to rest ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wanted", [policy("tcp"), policy("dctcp"), policy("pias"), policy(thresholds=["10KB"], queues=2)]
)
def test_an_empty_switch_gets_all_rules_and_stands_at_the_version(wanted):
    desired = Desired(single(), 5, wanted)
    network = Network(desired)
    assert network.state.version is None
    network.settle()
    assert network.state.version == 5
    snapped = tuple(tags.snap_to_edge(t) for t in wanted.thresholds)
    assert network.switch.flows == fresh(desired, dict.fromkeys(["s1:1", "s1:2", "s1:3"], snapped)).flows
    assert [(n.port, n.version, n.thresholds_bytes, n.flows) for n in network.news] == [
        (f"s1:{i}", 5, snapped, 0) for i in (1, 2, 3)
    ]


def test_a_switch_that_is_right_is_not_touched():
    desired = Desired(single(), 1, policy("pias"))
    first = Network(desired)
    first.settle()
    second = Network(desired, first.switch)
    second.settle()
    assert [len(changes) for changes in second.changes] == [0]
    assert second.state.version == 1


def test_a_restarted_controller_goes_on_with_what_was_learned():
    topology, adaptive = single(), policy(thresholds=["1000KB"], queues=2)
    first = Network(Desired(topology, 1, adaptive))
    first.run(2_000, 1, lambda: 10 * KB)
    learned = {f"s1:{i}": first.thresholds(f"s1:{i}") for i in (1, 2, 3)}
    assert learned["s1:1"] != learned["s1:2"]
    second = Network(Desired(topology, 1, adaptive, learned), first.switch)
    second.settle()
    assert [len(changes) for changes in second.changes] == [0]


def test_a_static_scheme_ignores_what_was_learned():
    desired = Desired(single(), 1, policy("pias", queues=2, thresholds=["10KB"]), {"s1:1": (KB,)})
    network = Network(desired)
    network.settle()
    assert network.thresholds("s1:1") == (10 * KB,)


def test_a_switch_that_lost_its_rules_gets_them_back_with_the_thresholds_it_had():
    network = Network(Desired(single(), 1, policy(thresholds=["1000KB"], queues=2)))
    network.run(2_000, 1, lambda: 10 * KB)
    before = dict(network.switch.flows)
    network.switch = FakeSwitch()
    network.state.connected(network.now_ns)
    assert network.state.version is None
    network.settle()
    assert network.switch.flows == before
    assert network.state.version == 1


def test_a_refused_change_is_tried_again_after_a_while_from_what_the_switch_holds():
    network = Network(Desired(single(), 1, policy("pias")))
    assert network.state.next_operation(0) == ReadRules()
    network.state.rules_read(SwitchRules((), ()))
    assert isinstance(network.state.next_operation(0), Change)
    network.state.refused(0)
    assert network.state.next_operation(RETRY_NS - 1) is None
    assert network.state.next_operation(RETRY_NS) == ReadRules()
    assert network.state.version is None


# ── Policies ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_want__changes_only_the_rules_whose_queue_changes():
    network = Network(Desired(single(), 1, policy("pias", queues=2, thresholds=["10KB"])))
    network.settle()
    network.state.want(Desired(single(), 2, policy("pias", queues=2, thresholds=["20KB"])))
    network.settle()
    (changes,) = network.changes[1:]
    assert isinstance(changes, Remap)
    assert len(changes) == 3 * 2  # the buckets up to 13.3 KB and 17.8 KB
    assert network.state.version == 2


def test_want__a_policy_that_changes_no_rule_is_acknowledged_all_the_same():
    network = Network(Desired(single(), 1, policy("tcp")))
    network.settle()
    network.state.want(Desired(single(), 2, policy("dctcp")))
    assert network.state.version == 1
    network.settle()
    assert [len(changes) for changes in network.changes[1:]] == [0]
    assert network.state.version == 2
    assert [n.version for n in network.news[3:]] == [2, 2, 2]


def test_want__keeps_what_was_learned_when_only_the_pace_changes():
    adaptive = policy(thresholds=["1000KB"], queues=2)
    network = Network(Desired(single(), 1, adaptive))
    network.run(2_000, 1, lambda: 10 * KB)
    network.state.want(Desired(single(), 2, replace(adaptive, interval_ms=200, window_ms=1000)))
    network.settle()
    assert network.thresholds("s1:1") == (10 * KB,)
    assert len(network.changes[-1]) == 0


def test_want__starts_afresh_when_it_is_given_other_thresholds():
    network = Network(Desired(single(), 1, policy(thresholds=["1000KB"], queues=2)))
    network.run(2_000, 1, lambda: 10 * KB)
    network.state.want(Desired(single(), 2, policy(thresholds=["1KB"], queues=2)))
    network.settle()
    assert network.thresholds("s1:1") == (KB,)


def test_want__a_change_under_way_is_finished_and_then_overtaken():
    """The version that is acknowledged is the one that was sent, not the one wanted meanwhile."""
    network = Network(Desired(single(), 1, policy("pias")))
    network.settle()
    network.state.want(Desired(single(), 2, policy("pias", queues=2, thresholds=["10KB"])))
    operation = network.state.next_operation(0)
    network.state.want(Desired(single(), 3, policy("pias", queues=2, thresholds=["20KB"])))
    network.switch.apply(as_changes(operation.changes))
    network.state.applied()
    assert network.state.version == 2
    network.settle()
    assert network.state.version == 3
    assert network.thresholds("s1:1") == (tags.snap_to_edge(20 * KB),)


# ── Overrides ──────────────────────────────────────────────────────────────────────────────────────────────────────


def adaptive(*overrides, **fields):
    return policy(thresholds=["1000KB"], queues=2, overrides=list(overrides), **fields)


def test_overrides__thresholds_by_hand_stay_and_the_other_ports_adapt():
    wanted = adaptive({"ports": ["s1:1"], "thresholds": ["20KB"]})
    network = Network(Desired(single(), 1, wanted))
    network.run(2_000, 1, lambda: 10 * KB)
    assert network.thresholds("s1:1") == (tags.snap_to_edge(20 * KB),)
    network.completed[2][8] += 1000
    network.run(200)
    network.completed[2][8] += 1000
    network.run(200)
    assert network.thresholds("s1:2") == (10 * KB,)


def test_overrides__freeze_keeps_what_is_in_force_and_without_it_adaptation_goes_on():
    network = Network(Desired(single(), 1, adaptive()))
    network.run(2_000, 1, lambda: 10 * KB)
    assert network.thresholds("s1:1") == (10 * KB,)
    network.state.want(Desired(single(), 2, adaptive({"ports": ["s1:*"], "freeze": True})))
    network.run(2_000, 1, lambda: 100 * KB)
    assert network.thresholds("s1:1") == (10 * KB,)
    assert network.state.version == 2
    assert {n.version for n in network.news[-3:]} == {2}
    network.state.want(Desired(single(), 3, adaptive()))
    network.run(2_000, 1, lambda: 100 * KB)
    assert network.thresholds("s1:1") == (100 * KB,)


def test_overrides__freeze_holds_also_when_the_policy_starts_elsewhere():
    network = Network(Desired(single(), 1, adaptive()))
    network.run(2_000, 1, lambda: 10 * KB)
    frozen = policy(queues=2, thresholds=["1KB"], overrides=[{"ports": ["s1:1"], "freeze": True}])
    network.state.want(Desired(single(), 2, frozen))
    network.run(1_000, 1, lambda: 100 * KB)
    assert network.thresholds("s1:1") == (10 * KB,)
    assert network.thresholds("s1:3") == (KB,)


def test_overrides__at_a_static_scheme_change_one_ports_rules_and_go_back():
    plain = policy("pias", queues=2, thresholds=["10KB"])
    fixed = policy(
        "pias", queues=2, thresholds=["10KB"], overrides=[{"ports": ["s1:2"], "thresholds": ["20KB"]}]
    )
    network = Network(Desired(single(), 1, plain))
    network.settle()
    before = dict(network.switch.flows)
    network.state.want(Desired(single(), 2, fixed))
    network.settle()
    assert {network.changes[-1].rule(i).actions[-1].port for i in range(len(network.changes[-1]))} == {2}
    assert network.thresholds("s1:2") == (tags.snap_to_edge(20 * KB),)
    network.state.want(Desired(single(), 3, plain))
    network.settle()
    assert network.switch.flows == before


def test_overrides__a_restarted_controller_goes_on_with_a_frozen_port():
    frozen = adaptive({"ports": ["*"], "freeze": True})
    network = Network(Desired(single(), 7, frozen, {"s1:1": (10 * KB,)}))
    network.run(1_000, 1, lambda: 100 * KB)
    assert network.thresholds("s1:1") == (10 * KB,)


def test_a_port_of_which_the_switch_says_nothing_for_a_while_has_seen_no_burst():
    """Its counters are there again with what they had counted meanwhile, not with all that they ever had."""
    network = Network(Desired(single(), 1, adaptive(min_flows=50)))
    network.settle()
    counted = np.zeros((3, 1, tags.ATTAINED_BUCKETS), np.int64)
    counted[:, :, 8] = 1_000_000
    network.state.counted(1, told(counted))
    network.state.counted(2, told(np.zeros_like(counted), seen=[False, True, True]))
    counted[:, :, 8] += 7
    network.state.counted(3, told(counted))
    assert network.state._adaptation.flows[0] == 7


def test_phase__switches_are_asked_in_turn_and_not_at_one_instant():
    asked = {}
    states = [SwitchState("s1", Desired(single(), 1, policy()), phase=i / 10) for i in range(10)]
    for state in states:
        state.connected(0)
        state.rules_read(SwitchRules((), ()))
        state.next_operation(0)
        state.applied()
    for now_ms in range(1, 301):
        for i, state in enumerate(states):
            if isinstance(state.next_operation(now_ms * MS), PollCompleted):
                asked.setdefault(now_ms, []).append(i)
    assert max(map(len, asked.values())) == 1
    assert sum(map(len, asked.values())) == 30


@pytest.mark.parametrize("fins", [True, False])
def test_online_thresholds_follow_the_bytes_with_and_without_fins(fins):
    """Persistent connections end no flow that a switch could see; the port's bytes tell as much."""
    wanted = policy("sluice", queues=4, thresholds=["100KB"], interval_ms=100, window_ms=500)
    network = Network(Desired(single(), 1, wanted))
    network.settle()
    share = counted([10 * KB] * 8 + [1_000 * KB] * 2, fins=fins)
    for _ in range(20):
        network.now_ns += 100 * MS
        network.carried[1] = plus(network.carried[1], share)
        network.completed[1] += share.completed[0, tags.ATTAINED_FIRST : tags.ATTAINED_LAST + 1]
        network.settle()
    assert network.thresholds("s1:1")[0] in ((10_000,) if fins else (10_000, 13_335))
    assert network.thresholds("s1:2") == (100_000,)


# ── Pace ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def polls(network, duration_ms, kind):
    count = 0
    for _ in range(duration_ms):
        network.now_ns += MS
        operation = network.state.next_operation(network.now_ns)
        count += isinstance(operation, kind)
        if isinstance(operation, PollCompleted):
            network.state.counted(network.now_ns, told([c[None] for c in network.completed.values()]))
    return count


@pytest.mark.parametrize(
    ("interval_ms", "window_ms", "a_second"),
    [(100, 500, 10), (10, 500, 20), (1000, 500, 8), (1000, 10_000, 1)],
)
def test_counters_are_polled_at_the_interval_bounded_by_50_ms_and_a_quarter_of_the_window(
    interval_ms, window_ms, a_second
):
    network = Network(Desired(single(), 1, policy(interval_ms=interval_ms, window_ms=window_ms)))
    network.settle()
    assert polls(network, 10_000, PollCompleted) == pytest.approx(10 * a_second, abs=1)


def test_queues_are_polled_once_a_second_under_every_scheme():
    for wanted in (policy("tcp"), policy()):
        network = Network(Desired(single(), 1, wanted))
        network.settle()
        assert polls(network, 10_000, PollQueues) == pytest.approx(10**10 / QUEUE_POLL_NS, abs=1)


def test_bytes_are_polled_with_the_completed_flows_where_thresholds_follow_them():
    for wanted, times in ((policy("sluice"), 10), (policy(), 0)):
        network = Network(Desired(single(), 1, wanted))
        network.settle()
        seen = []
        for _ in range(1_000):
            network.now_ns += MS
            seen.append(network.state.next_operation(network.now_ns))
            if isinstance(seen[-1], PollCarried):
                network.state.carried(told([np.zeros((2, tags.TAG_COUNT), np.int64)] * 3))
            if isinstance(seen[-1], PollCompleted):
                network.state.counted(network.now_ns, told([c[None] for c in network.completed.values()]))
        kinds = [type(operation) for operation in seen if operation is not None]
        assert kinds.count(PollCarried) == pytest.approx(times, abs=1)
        assert kinds.count(PollCompleted) == pytest.approx(10, abs=1)
        assert all(kinds[i + 1] is PollCompleted for i, kind in enumerate(kinds[:-1]) if kind is PollCarried)


def test_static_schemes_do_not_poll_completed_flows():
    network = Network(Desired(single(), 1, policy("pias")))
    network.settle()
    assert polls(network, 1_000, PollCompleted) == 0


def test_polling_does_not_catch_up_after_a_pause():
    network = Network(Desired(single(), 1, policy()))
    network.settle()
    network.now_ns += 60_000 * MS
    assert polls(network, 1_000, PollCompleted) <= 11


# ── Convergence ────────────────────────────────────────────────────────────────────────────────────────────────────


def mix(short_bytes):
    """80 % short flows, 20 % of 1 MB, in a fixed order without randomness."""
    sizes = iter(())

    def draw():
        nonlocal sizes
        size = next(sizes, None)
        if size is None:
            sizes = iter([short_bytes] * 4 + [1_000_000])
            size = next(sizes)
        return size

    return draw


@pytest.mark.parametrize("start", ["1KB", "10KB", "1000KB"])
def test_convergence__to_the_edge_of_the_short_flows_from_any_start_within_a_window(start):
    network = Network(Desired(single(), 1, policy(queues=2, thresholds=[start], percentiles=[80])))
    history = network.run(5_000, 1, mix(10 * KB))
    assert set(history[60:]) == {(10 * KB,)}
    where_nothing_completes = tags.snap_to_edge(network.desired.policy.thresholds[0])
    assert network.thresholds("s1:2") == network.thresholds("s1:3") == (where_nothing_completes,)
    assert network.mapped_at_all_times


def test_convergence__follows_a_shift_within_a_window_and_stays():
    """A 20 KB flow's last packet lies in the bucket that ends at 23.7 KB."""
    network = Network(Desired(single(), 1, policy(queues=2, thresholds=["10KB"])))
    network.run(2_000, 1, mix(10 * KB))
    history = network.run(5_000, 1, mix(20 * KB))
    edge = tags.EDGES_BYTES[tags.attained_tag(20 * KB) - tags.ATTAINED_FIRST]
    assert round(edge, -2) == 23_700
    assert set(history[60:]) == {(edge,)}
    assert history[0] == (10 * KB,)


def test_convergence__fewer_flows_than_the_minimum_move_nothing():
    network = Network(Desired(single(), 1, policy(queues=2, thresholds=["1000KB"], min_flows=5)))
    network.settle()
    network.completed[1][8] += 4
    history = network.run(1_000)
    assert set(history) == {(1_000_000,)}


def test_convergence__stays_when_the_traffic_stops():
    network = Network(Desired(single(), 1, policy(queues=2, thresholds=["1000KB"])))
    network.run(2_000, 1, mix(10 * KB))
    changes = len(network.changes)
    network.run(5_000)
    assert network.thresholds("s1:1") == (10 * KB,)
    assert len(network.changes) == changes


def test_counters_of_a_new_connection_are_a_baseline_and_no_burst_of_flows():
    network = Network(Desired(single(), 1, policy(queues=2, thresholds=["1000KB"])))
    network.settle()
    network.completed[1] += 10_000
    network.state.connected(network.now_ns)
    assert set(network.run(1_000)) == {(1_000_000,)}


@settings(max_examples=30)
@given(st.data())
def test_after_any_sequence_of_changes_the_table_equals_a_fresh_install(data):
    """Thresholds that wander, policies that come and go: one rule for each tag at any time, the right one at rest."""
    queues = data.draw(st.sampled_from([2, 3, 8]))
    adaptive = policy(queues=queues, min_flows=1)
    network = Network(Desired(single(), 1, adaptive))
    network.settle()
    for version in range(2, data.draw(st.integers(3, 8))):
        if data.draw(st.booleans()):
            wanted = data.draw(st.sampled_from([adaptive, policy("tcp"), policy("pias"), policy()]))
            network.desired = Desired(single(), version, wanted)
            network.state.want(network.desired)
        sizes = data.draw(st.lists(st.sampled_from(tags.EDGES_BYTES), min_size=1, max_size=5))
        network.run(300, 1, lambda sizes=sizes: sizes[len(network.news) % len(sizes)])
        assert network.mapped_at_all_times
        in_force = {f"s1:{i}": network.thresholds(f"s1:{i}") for i in (1, 2, 3)}
        assert network.switch.flows == fresh(network.desired, in_force).flows
    packet = Packet(2, network.desired.topology.hosts[0].mac)
    for dscp in range(64):
        for family in (IPV4, IPV6):
            assert len(network.switch.send(replace(packet, dscp=dscp, eth_type=family))) == 1


# ── Hosts that lie ─────────────────────────────────────────────────────────────────────────────────────────────────


def lie(network, port, ms=1500):
    """Port 2's host sends all under tag 1, at its link's rate."""
    for _ in range(0, ms, 50):
        network.ingress[port - 1, :, 1] += (400, 400 * 1514)
        counts = {1: tuple(network.ingress[port - 1, :, 1].tolist())}
        network.witnesses = [FlowSeen(port, "TCP a > b", network.now_ns / 1e9, counts)]
        network.run(50)


def queue_of(network, in_port, tag, family=IPV4):
    (sent,) = network.switch.send(Packet(in_port, MAC, family, tag))
    return sent.queue


MAC = single().host_by_name["h1"].mac


def test_a_liar_is_watched_then_demoted_then_restored_and_no_rule_remains():
    network = Network(Desired(single(), 1, policy("pias")))
    network.settle()
    before = dict(network.switch.flows)
    lie(network, 2)
    (verdict,) = network.state.verdicts()
    assert isinstance(verdict, Demoted)
    assert verdict.port == "s1:2"
    assert network.state.demoted_ports == ["s1:2"]
    for family in (IPV4, IPV6):
        assert [queue_of(network, 2, tag, family) for tag in (0, 1, 41, 57)] == [7] * 4
        assert queue_of(network, 3, 1, family) == 0
    assert [len(changes) for changes in network.changes[1:]] == [4, 6], "a handful of rules"
    network.run(20_000)
    (verdict,) = network.state.verdicts()
    assert isinstance(verdict, Restored)
    assert network.switch.flows == before


def test_a_sanction_outlives_the_connection_the_controller_and_a_change_of_scheme():
    desired = Desired(single(), 1, policy("pias"))
    network = Network(desired)
    network.settle()
    lie(network, 2)
    network.state.connected(network.now_ns)
    network.settle()
    assert len(network.changes[-1]) == 0, "no rule was wrong"
    again = Network(replace(desired, offences={"s1:2": 1}), network.switch)
    again.settle()
    assert [len(changes) for changes in again.changes] == [0]
    again.state.want(Desired(single(), 2, policy("fish")))
    again.settle()
    assert (again.state.version, queue_of(again, 2, 1)) == (2, 7)
    assert not again.state.verdicts()
    again.state.want(Desired(single(), 3, policy("tcp")))
    again.settle()
    assert again.state.demoted_ports == []
    assert [type(verdict) for verdict in again.state.verdicts()] == [Restored]


def test_a_switch_is_asked_for_the_ingress_twice_a_second_and_for_all_tags_every_other_second():
    network = Network(Desired(single(), 1, policy("pias")))
    network.settle()
    seen = []
    for now_ms in range(0, 10_000, 10):
        while (operation := network.state.next_operation(now_ms * MS)) is not None:
            seen.append(operation)
    assert seen.count(PollIngress(all_tags=False)) == pytest.approx(15, abs=1)
    assert seen.count(PollIngress(all_tags=True)) == pytest.approx(5, abs=1)
    assert PollWitness() not in seen
