# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from sluice.controller.changes import Changes
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules, treatment_changes
from sluice.controller.rules import LearnHost, MeterRule, Source, SwitchRules
from sluice.controller.tables import METER_SPACE
from sluice.policy.policing.limits import Treatment
from sluice.policy.schemes.queues import mlfq_map
from tests.fakes.switch import ARP, IPV4, IPV6, FakeSwitch, Packet
from tests.unit.controller.networks import single

HOST = single().host_by_name["h1"].mac
QUEUES = mlfq_map([10_000], queues=2, untagged_queue=1)


def pipeline() -> SwitchRules:
    return switch_rules(single(), "s1", {port.number: QUEUES for port in single().ports})


def changes_of(before: PortTreatments, after: PortTreatments) -> Changes:
    return treatment_changes(before, after, EdgePorts())


def test_treatment_changes__add_a_handful_of_rules_and_remove_them_again() -> None:
    watched, demoted = (PortTreatments({2: how}) for how in (Treatment.WATCHED, Treatment.DEMOTED))
    switch = FakeSwitch(pipeline())
    switch.apply(changes_of(PortTreatments(), watched))
    before = dict(switch.flows)
    sanction = changes_of(watched, demoted)
    assert (len(sanction.add), len(sanction.modify), len(sanction.delete)) == (2, 4, 0)
    switch.apply(sanction)
    switch.apply(changes_of(demoted, watched))
    assert switch.flows == before


def test_treatment_changes__a_limit_is_a_meter_that_every_packet_of_the_port_passes() -> None:
    limited = PortTreatments({2: Treatment.DEMOTED}, {2: 1_000_000})
    switch = FakeSwitch(pipeline())
    before = dict(switch.flows)
    change = changes_of(PortTreatments(), limited)
    assert change.add_meters == (MeterRule(METER_SPACE + 2, 1000, 160),)
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
