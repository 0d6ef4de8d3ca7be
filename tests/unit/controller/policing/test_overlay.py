# SPDX-License-Identifier: Apache-2.0
"""Hosts with false tags, from their counters to the rules of their ports."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from sluice.controller.changes import Changes
from sluice.controller.openflow.counters import FlowCounts
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing import hosts
from sluice.controller.policing.hosts import Restored, UrgencyBudgeted, Verdict
from sluice.controller.policing.overlay import READ_ALL_TAGS, READ_FLOWS, READ_LOW_TAGS, NetworkPolicing
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules, treatment_changes
from sluice.controller.recorder import Recorder
from sluice.controller.reporting import Reporter
from sluice.controller.rules import LearnHost, MeterRule, Source, SwitchRules
from sluice.controller.state import MS, Desired
from sluice.controller.tables import METER_SPACE
from sluice.policy import tags
from sluice.policy.policing.limits import Breach, Demoted, Treatment
from sluice.policy.policing.urgency import Explained, UrgencyReport
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes.queues import mlfq_map
from sluice.store.totals import Tally
from tests.fakes.switch import ARP, IPV4, IPV6, FakeSwitch, Packet
from tests.kit.networks import leaf_spine, single
from tests.unit.controller.driven import DrivenSwitch, policy, settled


def send_false_tags(driven: DrivenSwitch, port: int, ms: int = 1500) -> None:
    """Let a port's host send all packets with tag 1, at about the rate of its link."""
    for _ in range(0, ms, 50):
        driven.ingress[port - 1, :, 1] += (400, 400 * 1514)
        packets, size_bytes = driven.ingress[port - 1, :, 1].tolist()
        by_tag = {1: (packets, size_bytes)}
        driven.learned = [FlowCounts(port, "TCP a > b", driven.now_ns / 1e9, by_tag)]
        driven.run(50)


def queue_of(driven: DrivenSwitch, in_port: int, tag: int, family: int = IPV4) -> int:
    (sent,) = driven.switch.send(Packet(in_port, MAC, family, tag))
    return sent.queue


MAC = single().host_by_name["h1"].mac


def test_a_host_with_false_tags_is_watched_demoted_and_restored_and_no_rule_remains() -> None:
    driven = settled(policy("pias"))
    before = dict(driven.switch.flows)
    send_false_tags(driven, 2)
    (verdict,) = driven.take_verdicts()
    assert isinstance(verdict, Demoted)
    assert (verdict.port, verdict.host, verdict.tag, verdict.flow) == ("s1:2", "h2", 1, "TCP a > b")
    assert verdict.sent_bytes > verdict.limit_bytes
    assert driven.policing.demoted_ports == ["s1:2"]
    for family in (IPV4, IPV6):
        assert [queue_of(driven, 2, tag, family) for tag in (0, 1, 41, 57)] == [7] * 4
        assert queue_of(driven, 3, 1, family) == 0
    assert [len(changes) for changes in driven.changes[1:]] == [4, 8], "a handful of rules and a meter"
    driven.run(20_000)
    (verdict,) = driven.take_verdicts()
    assert isinstance(verdict, Restored)
    assert (driven.switch.flows, driven.switch.meters) == (before, {})


def test_a_demoted_host_has_a_part_of_its_link_and_the_policy_moves_it() -> None:
    driven = settled(policy("pias", demoted_share=0.1))
    send_false_tags(driven, 2)
    (verdict,) = driven.take_verdicts()
    assert isinstance(verdict, Demoted)
    rate_bps = single().ports_of["s1"][1].rate_bps
    (meter,) = driven.switch.meters.values()
    assert meter.rate_kbps == rate_bps // 10_000
    assert verdict.rate_bps == rate_bps // 10
    driven.want(2, policy("pias", demoted_share=0.2))
    (meter,) = driven.switch.meters.values()
    assert meter.rate_kbps == rate_bps // 5_000
    driven.want(3, policy("pias", demoted_share=1))
    assert driven.switch.meters == {}
    assert driven.policing.demoted_ports == ["s1:2"]


@pytest.mark.parametrize("how", ["offers none", "refuses one"])
def test_without_meters_a_host_is_demoted_without_a_limit(how: str) -> None:
    driven = DrivenSwitch(Desired(single(), 1, policy("pias")))
    if how == "refuses one":
        driven.settle()
        driven.state.meter_refused()
        driven.state.refused(driven.now_ns)
        driven.run(2_000)
    else:
        driven.has_meters = False
        driven.settle()
    send_false_tags(driven, 2)
    (verdict,) = driven.take_verdicts()
    assert isinstance(verdict, Demoted)
    assert verdict.rate_bps is None
    assert driven.switch.meters == {}
    assert queue_of(driven, 2, 1) == 7
    if how == "refuses one":
        driven.state.connected(driven.now_ns)
        driven.settle()
        assert len(driven.switch.meters) == 1, "another connection may be to another switch"


def test_a_sanction_outlives_the_connection_the_controller_and_a_change_of_scheme() -> None:
    desired = Desired(single(), 1, policy("pias"))
    driven = DrivenSwitch(desired)
    driven.settle()
    send_false_tags(driven, 2)
    driven.state.connected(driven.now_ns)
    driven.settle()
    assert len(driven.changes[-1]) == 0, "no rule was wrong"
    again = DrivenSwitch(replace(desired, offences={"s1:2": 1}), driven.switch)
    again.settle()
    assert [len(changes) for changes in again.changes] == [0]
    again.want(2, policy("fish"))
    assert (again.state.version, queue_of(again, 2, 1)) == (2, 7)
    assert not again.take_verdicts()
    again.want(3, policy("tcp"))
    assert again.policing.demoted_ports == []
    assert [type(verdict) for verdict in again.take_verdicts()] == [Restored]


def test_the_ingress_is_polled_twice_a_second_and_all_tags_every_other_second() -> None:
    driven = settled(policy("pias"))
    seen = []
    for now_ms in range(0, 10_000, 10):
        while (operation := driven.state.next_operation(now_ms * MS)) is not None:
            seen.append(operation)
    assert seen.count(READ_LOW_TAGS) == pytest.approx(15, abs=1)
    assert seen.count(READ_ALL_TAGS) == pytest.approx(5, abs=1)
    assert READ_FLOWS not in seen


# ── Urgency ────────────────────────────────────────────────────────────────────────────────────


def send_urgent(driven: DrivenSwitch, port: int, seconds: int, tagged_part: float | None) -> None:
    """Let a port's host send half a link of urgent packets, of which its agent reports a part. None: no agent."""
    under_demotion = 0
    for _ in range(seconds * 10):
        demoted = driven.policing.demoted_ports == [f"s1:{port}"]
        driven.ingress[port - 1, :, tags.BACKGROUND if demoted else 56] += (STEP_PACKETS, STEP_BYTES)
        under_demotion += demoted
        by_tag = {56: (under_demotion * STEP_PACKETS, under_demotion * STEP_BYTES)}
        driven.learned = [FlowCounts(port, "UDP a > b", 1.0, by_tag)] if demoted else []
        sent = int(driven.ingress[port - 1, 1, 56]) + under_demotion * STEP_BYTES
        host = driven.desired.topology.ports_of["s1"][port - 1].peer
        reports = {host: UrgencyReport(int(sent * (tagged_part or 0)), 1, driven.now_ns)}
        driven.policing.explain_urgency({} if tagged_part is None else reports)
        driven.run(100)


STEP_PACKETS = single().ports_of["s1"][0].rate_bps // 8 // 20 // 1514
STEP_BYTES = 1514 * STEP_PACKETS


@pytest.mark.parametrize(
    ("scheme", "tagged_part", "demoted"),
    [
        *(("aemon", part, part != 1.0) for part in (None, 1.0, 0.5, 0.0)),
        *(("sluice", part, part is None) for part in (None, 1.0)),
    ],
)
def test_urgency_that_no_agent_explains_is_no_better_than_background(
    scheme: str, tagged_part: float | None, demoted: bool
) -> None:
    driven = settled(policy(scheme))
    send_urgent(driven, 2, 12 if tagged_part != 0.5 else 24, tagged_part)
    verdicts = driven.take_verdicts()
    assert [type(verdict) for verdict in verdicts] == [Demoted] * demoted
    last = policy(scheme).queues - 1
    assert (queue_of(driven, 2, 56) == last) is demoted
    assert queue_of(driven, 3, 56) < last
    for verdict in verdicts:
        assert isinstance(verdict, Demoted)
        assert (verdict.port, verdict.tag, verdict.flow) == ("s1:2", 56, hosts.ALL_URGENT)
        assert verdict.sent_bytes > verdict.limit_bytes


@pytest.mark.parametrize("tagged_part", [None, 0.5])
def test_a_host_stays_demoted_while_it_forges_urgency_and_is_restored_after_that(
    tagged_part: float | None,
) -> None:
    driven = settled(policy("aemon"))
    send_urgent(driven, 2, 24, tagged_part)
    assert [type(verdict) for verdict in driven.take_verdicts()] == [Demoted]
    driven.learned = []
    driven.run(12_000)
    assert [type(verdict) for verdict in driven.take_verdicts()] == [Restored]


@pytest.mark.parametrize(
    "document", [{"scheme": "pias"}, {"scheme": "aemon", "tag_burst": 0}, {"scheme": "sluice", "acts_at": []}]
)
def test_urgency_is_not_checked_where_it_decides_nothing(document: dict[str, Any]) -> None:
    driven = settled(Policy.from_document(document))
    send_urgent(driven, 2, 6, None)
    assert driven.take_verdicts() == []


def test_before_the_first_reports_no_urgency_is_judged() -> None:
    driven = settled(policy("aemon"))
    for _ in range(100):
        driven.ingress[1, :, 56] += (STEP_PACKETS, STEP_BYTES)
        driven.run(100)
    assert driven.take_verdicts() == []


def test_urgency_by_port__the_agents_behind_each_port() -> None:
    report = UrgencyReport(100, 7, 3000)
    network = leaf_spine()
    near, far = (
        next(h.name for h in network.hosts if network.edge_port(h.name).switch == s) for s in ("s1", "s2")
    )
    reports = {near: report, far: report, "unknown": report}
    found = hosts.urgency_by_port(network, network.ports_of["s1"], reports)
    assert found == {network.edge_port(near).number: Explained(100, ((near, 7),), 3000)}


def test_urgency_beyond_its_share_counts_as_untagged_until_there_is_a_budget_again() -> None:
    """The host is root on its machine, and its agent reports whatever arrives."""
    driven = settled(policy("aemon", urgent_share=0.2, reserved_dscp=[46]))
    before = dict(driven.switch.flows)
    send_urgent(driven, 2, 20, 1.0)
    port, untagged = "s1:2", policy("aemon").untagged_queue
    assert driven.take_verdicts() == [UrgencyBudgeted(port, "h2", is_spent=True)]
    for family in (IPV4, IPV6):
        assert [queue_of(driven, 2, tag, family) for tag in (41, 56)] == [untagged] * 2
        assert queue_of(driven, 2, 46, family) == 0, "a reserved DSCP is no tag"
        assert queue_of(driven, 3, 56, family) < untagged
        assert queue_of(driven, 2, 1, family) == 0
    assert len(driven.changes[-1]) == 30, "one rule for each address family and tag"
    driven.run(20_000)
    assert driven.take_verdicts() == [UrgencyBudgeted(port, "h2", is_spent=False)]
    assert driven.switch.flows == before
    send_urgent(driven, 2, 20, 1.0)
    driven.state.want(Desired(single(), 2, policy("pias", reserved_dscp=[46])))
    driven.run(3_000)
    assert [type(verdict) for verdict in driven.take_verdicts()] == [UrgencyBudgeted] * 2
    assert not driven.policing.hosts.treated.spent


# ── Verdicts ───────────────────────────────────────────────────────────────────────────────────


class RecordingReporter(Reporter):
    """Keeps what policing reports."""

    def __init__(self) -> None:
        super().__init__(cast(Recorder, None))
        self.verdicts: list[tuple[str, Verdict]] = []
        self.demoted: list[str] = []

    def verdict(self, switch: str, verdict: Verdict) -> None:
        self.verdicts.append((switch, verdict))

    def demoted_ports(self, port_ids: Sequence[str]) -> None:
        self.demoted = list(port_ids)


def test_the_network_keeps_the_sanctions_of_ports_that_still_exist_and_counts_no_demotion_twice() -> None:
    reporter, tally = RecordingReporter(), Tally()
    policing = NetworkPolicing(reporter, tally)
    desired = Desired(leaf_spine(), 1, policy("pias"), offences={"s1:1": 2, "s9:1": 1})
    overlays = {s.name: policing.overlay(s.name, desired, 0.0) for s in leaf_spine().switches}
    policing.begin()
    assert (reporter.demoted, reporter.verdicts) == (["s1:1"], [])
    first = overlays["s1"].hosts
    first._demote(0, 2, hosts._Proof("TCP a > b", Breach(1, 2.0, 1.0), 1.0))
    first._demote(1, 2, hosts._Proof("TCP a > b", Breach(1, 2.0, 1.0), 1.0))
    overlays["s1"].report()
    ((switch, verdict),) = reporter.verdicts
    assert (switch, type(verdict)) == ("s1", Demoted)
    assert sum(tally.take().values()) == 1


def test_the_network_reports_at_its_begin_which_hosts_are_no_longer_demoted() -> None:
    reporter = RecordingReporter()
    policing = NetworkPolicing(reporter, Tally())
    policing.overlay("s1", Desired(single(), 1, policy("tcp"), offences={"s1:2": 1}), 0.0)
    assert not reporter.verdicts
    policing.begin()
    restored = Restored("s1:2", "h2", "the policy does not police tags")
    assert (reporter.demoted, reporter.verdicts) == ([], [("s1", restored)])
    policing.clear()
    policing.begin()
    assert len(reporter.verdicts) == 1


HOST = single().host_by_name["h1"].mac
QUEUES = mlfq_map([10_000], queues=2, untagged_queue=1)


def pipeline() -> SwitchRules:
    return switch_rules(single(), "s1", {port.number: QUEUES for port in single().ports})


def changes_of(before: PortTreatments, after: PortTreatments) -> Changes:
    return treatment_changes(before, after, EdgePorts())


def test_treatment_changes__a_limit_is_a_meter_that_every_packet_of_the_port_passes() -> None:
    limited = PortTreatments({2: Treatment.DEMOTED}, {2: 1_000_000})
    switch = FakeSwitch(pipeline())
    before = dict(switch.flows)
    change = changes_of(PortTreatments(), limited)
    assert change.add.meters == (MeterRule(METER_SPACE + 2, 1000, 160),)
    switch.apply(change)
    for packet in (Packet(2, HOST, IPV4), Packet(2, HOST, IPV6, protocol=1), Packet(2, HOST, ARP)):
        assert switch.meters_of(packet) == [METER_SPACE + 2]
        assert switch.meters_of(replace(packet, in_port=3)) == []
    switch.apply(changes_of(limited, PortTreatments({2: Treatment.DEMOTED}, {2: 5_000_000})))
    assert switch.meters[METER_SPACE + 2] == MeterRule(METER_SPACE + 2, 5000, 500)
    switch.apply(changes_of(PortTreatments({2: Treatment.DEMOTED}, {2: 5_000_000}), PortTreatments()))
    assert (switch.flows, switch.meters) == (before, {})


def test_treatment_changes__a_limit_also_holds_where_the_switch_learns_its_hosts() -> None:
    limited = PortTreatments({2: Treatment.DEMOTED}, {2: 1_000_000})
    rules = policing_rules(limited, EdgePorts(learning=(2, 3))).flows
    assert {r.meter for r in rules if ("in_port", 2) in r.match} == {METER_SPACE + 2}
    assert {r.meter for r in rules if ("in_port", 2) not in r.match} <= {None}


def test_policing_rules__a_demoted_port_learns_its_senders_in_each_rule_if_the_network_is_learned() -> None:
    demoted = PortTreatments({1: Treatment.DEMOTED})
    learning, known = (policing_rules(demoted, EdgePorts(learning=ports)).flows for ports in ((1,), ()))
    assert len(learning) == len(known) == 6
    assert all(LearnHost(1, Source.ETHERNET) in rule.actions for rule in learning)
    assert not any(LearnHost(1, Source.ETHERNET) in rule.actions for rule in known)


@pytest.mark.parametrize("treatment", [Treatment.WATCHED, Treatment.DEMOTED])
def test_a_treated_port_learns_its_senders_in_their_vlans(treatment: Treatment) -> None:
    treated = PortTreatments({2: treatment}, {2: 1_000_000})
    rules = policing_rules(treated, EdgePorts(learning=(2,), vlans=True)).flows
    learns = [action for rule in rules for action in rule.actions if isinstance(action, LearnHost)]
    assert learns
    assert all(action.vlans for action in learns)
    changes = treatment_changes(treated, PortTreatments(), EdgePorts(learning=(2,), vlans=True))
    again = [a for rule in changes.modify.flows for a in rule.actions if isinstance(a, LearnHost)]
    assert again
    assert all(action.vlans for action in again)
