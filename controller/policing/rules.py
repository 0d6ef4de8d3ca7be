# SPDX-License-Identifier: Apache-2.0
"""The rules and meters of edge ports with watched and demoted hosts. They lie over those of the pipeline. Pure.

edge: demote, limit, count in `flows`     ingress: urgency beyond its budget counts as untagged
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sluice.controller import tables
from sluice.controller.changes import Changes, diff
from sluice.controller.pipeline import edge_port_rules, edge_rules, learn_sender, sender_rule, sender_rules
from sluice.controller.rules import Action, FlowRule, LearnFlow, MeterRule, Resubmit, SetTag, SwitchRules
from sluice.controller.tables import FAMILIES, METER_SPACE, NO_CODE, Table, cookie, match_on, port_number
from sluice.policy import tags
from sluice.policy.policing.limits import Treatment

_BURST_S = 0.1
_LEAST_BURST_KBITS = 160
"""A few full frames at once. With less, TCP would lose most of every window."""
_URGENT = range(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)


@dataclass(frozen=True)
class PortTreatments:
    """The treatment of a switch's edge ports. Without arguments, all ports are free."""

    treatments: Mapping[int, Treatment] = field(default_factory=dict)
    """Port number → treatment. Ports that are missing are free."""
    limits_bps: Mapping[int, int] = field(default_factory=dict)
    """Number of a demoted port → the most that its host may send. A port that is missing has no limit."""
    spent: frozenset[int] = frozenset()
    """Numbers of the ports whose urgent packets count as untagged."""


@dataclass(frozen=True)
class EdgePorts:
    """What the rules of a switch's edge ports depend on beside their treatment."""

    groups: Mapping[int, int] = field(default_factory=dict)
    """Port number → group of ingress ports."""
    learning: Collection[int] = ()
    """Numbers of the ports whose hosts the switch learns."""
    reserved: Collection[int] = ()
    """DSCPs that are no tags."""
    vlans: bool = False
    """Whether frames have the headers of their VLANs."""


def policing_rules(treated: PortTreatments, ports: EdgePorts) -> SwitchRules:
    """Return the rules of watched and demoted ports and of spent urgency, and the meters of ports with a limit."""
    meters = []
    for port, rate_bps in treated.limits_bps.items():
        burst_kbits = max(_LEAST_BURST_KBITS, round(rate_bps * _BURST_S / 1000))
        meters.append(MeterRule(METER_SPACE + port, max(1, rate_bps // 1000), burst_kbits))
    return SwitchRules((), tuple(_flow_rules(treated, ports)), tuple(meters))


def _flow_rules(treated: PortTreatments, ports: EdgePorts) -> Iterator[FlowRule]:
    for port, treatment in treated.treatments.items():
        if treatment is not Treatment.FREE:
            learn = (learn_sender(port, vlans=ports.vlans),) if port in ports.learning else ()
            for rule in _treatment_rules(port, learn, demoted=treatment is Treatment.DEMOTED):
                yield _limited(rule, port) if port in treated.limits_bps else rule
    for port in treated.limits_bps:
        if port in ports.learning:
            yield from (_limited(rule, port) for rule in sender_rules(port, vlans=ports.vlans))
        else:
            number = cookie(Table.EDGE, port, tables.NOT_IP)
            yield _limited(replace(sender_rule(port, 2), cookie=number), port)
    for port in treated.spent:
        yield from _untagged_urgency(port, ports.groups[port], ports.reserved)


def _limited(rule: FlowRule, port: int) -> FlowRule:
    """Return the rule with the port's meter. Open vSwitch counts what the meter drops, too."""
    return replace(rule, meter=METER_SPACE + port)


def _treatment_rules(port: int, learn: tuple[Action, ...], *, demoted: bool) -> Iterator[FlowRule]:
    # `flows` counts the flow before SetTag, because the count must have the tag that the host
    # has written.
    sanction: tuple[Action, ...] = (*learn, SetTag(tags.BACKGROUND)) if demoted else learn
    for index, family in enumerate(FAMILIES):
        of_family = {"in_port": port_number(port), "eth_type": family}
        for protocol in (tables.TCP, tables.UDP):
            actions = (LearnFlow(port, index, protocol), Resubmit(Table.FLOWS), *sanction)
            match = match_on(**of_family, ip_proto=protocol)
            number = cookie(Table.EDGE, port, protocol, index)
            yield FlowRule(Table.EDGE, 20, match, actions, goto=Table.INGRESS, cookie=number)
        if demoted:
            number = cookie(Table.EDGE, port, NO_CODE, index)
            match = match_on(**of_family)
            yield FlowRule(Table.EDGE, 10, match, sanction, goto=Table.INGRESS, cookie=number)


def _untagged_urgency(port: int, group: int, reserved: Collection[int]) -> Iterator[FlowRule]:
    """Yield the rules that count an edge port's urgent packets and take their tag off."""
    untagged = (tables.group_and_code(group, tags.UNTAGGED), tables.GROUP_MASK | tables.CODE_MASK)
    for rule in edge_port_rules(port, group):
        tag = tables.cookie_code(rule.cookie)
        if tag in _URGENT and tag not in reserved:
            yield replace(rule, actions=(SetTag(tags.UNTAGGED),), write_metadata=untagged)


def treatment_changes(before: PortTreatments, after: PortTreatments, ports: EdgePorts) -> Changes:
    """Return the changes that turn one treatment of the edge ports into another."""
    old, new = policing_rules(before, ports), policing_rules(after, ports)
    overlaid = {rule.key for rule in (*old.flows, *new.flows)}
    pipeline = list(edge_rules(ports.learning, vlans=ports.vlans))
    for port in before.spent | after.spent:
        pipeline += edge_port_rules(port, ports.groups[port])
    below = SwitchRules((), tuple(rule for rule in pipeline if rule.key in overlaid))
    return diff(below.overlaid(old), below.overlaid(new))
