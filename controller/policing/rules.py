# SPDX-License-Identifier: Apache-2.0
"""The rules of the table `conduct`: policing of edge ports, and finding hosts and links.

Pure. `pipeline.py` joins them with the rules of the other tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sluice.controller.rules import (
    Action,
    FlowRule,
    LearnFlow,
    LearnHost,
    MatchValue,
    MeterRule,
    Output,
    Resubmit,
    SetTag,
    Source,
)
from sluice.controller.tables import (
    CONTROLLER,
    FAMILIES,
    ICMPV6,
    NO_CODE,
    NOT_IP,
    TCP,
    UDP,
    Table,
    cookie,
    match_on,
    port_number,
)
from sluice.policy import tags
from sluice.policy.policing.limits import Treatment

_NEIGHBOUR_DISCOVERY = (135, 136)
"""Types of ICMPv6: neighbour solicitation and advertisement."""
_ARP, _LLDP = 0x0806, 0x88CC

METER_SPACE = 0x51CE << 8
"""Number of the meter of edge port n: METER_SPACE + n."""
MAX_METERS = 1 << 16
_BURST_S = 0.1
_LEAST_BURST_KBITS = 160
"""A few full frames at once. With less, TCP would lose most of every window."""

Treatments: TypeAlias = Mapping[int, Treatment]
"""Edge port number → treatment. Ports that are missing are free."""


@dataclass(frozen=True)
class Treated:
    """The treatment of a switch's edge ports."""

    treatments: Treatments = field(default_factory=dict)
    limits_bps: Mapping[int, int] = field(default_factory=dict)
    """Number of a demoted port → the most that its host may send. A port that is missing has no limit."""
    spent: frozenset[int] = frozenset()
    """Numbers of the ports whose urgent packets count as untagged."""


FREE = Treated()
"""All ports are free."""


def limit_meters(limits_bps: Mapping[int, int]) -> tuple[MeterRule, ...]:
    """Return the meters of ports with a limit."""
    return tuple(_limit_meter(port, rate_bps) for port, rate_bps in limits_bps.items())


def _limit_meter(port: int, rate_bps: int) -> MeterRule:
    burst_kbits = max(_LEAST_BURST_KBITS, round(rate_bps * _BURST_S / 1000))
    return MeterRule(METER_SPACE + port, max(1, rate_bps // 1000), burst_kbits)


def conduct_rules(treated: Treated, learning: Collection[int] = ()) -> Iterator[FlowRule]:
    """Yield the rules of watched and demoted ports, at most seven for each port, and of ports that learn senders.

    `learning`: numbers of the edge ports whose hosts are learned. If there are none, links are not looked for either.
    """
    limits = treated.limits_bps
    yield FlowRule(Table.CONDUCT, 0, (), goto=Table.INGRESS, cookie=cookie(Table.CONDUCT))
    for port, treatment in treated.treatments.items():
        if treatment is not Treatment.FREE:
            learn = _senders(port) if port in learning else ()
            is_demoted = treatment is Treatment.DEMOTED
            for rule in _treatment_rules(port, learn, demoted=is_demoted):
                yield _limited(rule, port, limits)
    for port in learning:
        for rule in _sender_rules(port):
            yield _limited(rule, port, limits)
    for port in limits:
        if port not in learning:
            other = replace(_sender_rule(port, 2), cookie=cookie(Table.CONDUCT, port, NOT_IP))
            yield _limited(other, port, limits)


def _limited(rule: FlowRule, port: int, limits_bps: Mapping[int, int]) -> FlowRule:
    """Return the rule with the port's meter, if the port has one. Open vSwitch counts what the meter drops, too."""
    return replace(rule, meter=METER_SPACE + port) if port in limits_bps else rule


def lldp_rules() -> Iterator[FlowRule]:
    """Yield the rule that sends the controller's own LLDP frames back to it."""
    to_controller = (Output(CONTROLLER),)
    match = match_on(eth_type=_LLDP)
    yield FlowRule(Table.CONDUCT, 100, match, to_controller, cookie=cookie(Table.CONDUCT))


def _senders(port: int) -> tuple[LearnHost, ...]:
    """Return the action that learns who sends from a port."""
    return (LearnHost(port, Source.ETHERNET),)


def _sender_rules(port: int) -> Iterator[FlowRule]:
    """Yield the rules that learn who sends from a port. ARP and neighbour discovery also show the sender's address."""
    yield _sender_rule(port, 2, *_senders(port))
    yield _sender_rule(port, 30, *_senders(port), LearnHost(port, Source.ARP), eth_type=_ARP)
    for kind in _NEIGHBOUR_DISCOVERY:
        of_kind = {"eth_type": FAMILIES[1], "ip_proto": ICMPV6, "icmpv6_type": kind}
        yield _sender_rule(port, 30, *_senders(port), LearnHost(port, Source.NEIGHBOUR), **of_kind)


def _sender_rule(port: int, priority: int, *actions: LearnHost, **fields: MatchValue) -> FlowRule:
    match = match_on(in_port=port_number(port), **fields)
    return FlowRule(
        Table.CONDUCT, priority, match, actions, goto=Table.INGRESS, cookie=cookie(Table.CONDUCT, port)
    )


def _treatment_rules(port: int, learn: tuple[LearnHost, ...], *, demoted: bool) -> Iterator[FlowRule]:
    # `witness` counts the flow before SetTag, because the count must have the tag that the host
    # has written.
    sanction: tuple[Action, ...] = (*learn, SetTag(tags.BACKGROUND)) if demoted else learn
    for index, family in enumerate(FAMILIES):
        of_family = {"in_port": port_number(port), "eth_type": family}
        for protocol in (TCP, UDP):
            actions = (LearnFlow(port, index, protocol), Resubmit(Table.WITNESS), *sanction)
            match = match_on(**of_family, ip_proto=protocol)
            number = cookie(Table.CONDUCT, port, protocol, index)
            yield FlowRule(Table.CONDUCT, 20, match, actions, goto=Table.INGRESS, cookie=number)
        if demoted:
            number = cookie(Table.CONDUCT, port, NO_CODE, index)
            match = match_on(**of_family)
            yield FlowRule(Table.CONDUCT, 10, match, sanction, goto=Table.INGRESS, cookie=number)
