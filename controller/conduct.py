# SPDX-License-Identifier: Apache-2.0
"""The rules of the table `conduct`: policing of edge ports, and finding hosts and links.

Pure. `pipeline.py` joins them with the rules of the other tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from controller.cookies import NO_CODE, cookie
from controller.rules import (
    Action,
    FlowRule,
    LearnFlow,
    LearnHost,
    MatchValue,
    Output,
    Resubmit,
    SetTag,
    Source,
)
from controller.tables import CONTROLLER, FAMILIES, ICMPV6, TCP, UDP, Table, match_on, port_number
from policy import tags
from policy.sanctions import Treatment

_NEIGHBOUR_DISCOVERY = (135, 136)
"""Types of ICMPv6: neighbour solicitation and advertisement."""
_ARP, _LLDP = 0x0806, 0x88CC

Treatments: TypeAlias = Mapping[int, Treatment]
"""Edge port number → treatment. Ports that are missing are free."""


def conduct_rules(treatments: Treatments, learning: Collection[int] = ()) -> Iterator[FlowRule]:
    """Yield the rules of watched and demoted ports, at most six for each port, and of ports that learn senders.

    `learning`: numbers of the edge ports whose hosts are learned. If there are none, links are not looked for either.
    """
    yield FlowRule(Table.CONDUCT, 0, (), goto=Table.INGRESS, cookie=cookie(Table.CONDUCT))
    for port, treatment in treatments.items():
        if treatment is not Treatment.FREE:
            learn = _senders(port) if port in learning else ()
            yield from _treatment_rules(port, learn, demoted=treatment is Treatment.DEMOTED)
    for port in learning:
        yield from _sender_rules(port)


def lldp_rules() -> Iterator[FlowRule]:
    """Yield the rule that sends the controller's own LLDP frames back to it."""
    to_controller = (Output(CONTROLLER),)
    match = match_on(eth_type=_LLDP)
    yield FlowRule(Table.CONDUCT, 100, match, to_controller, cookie=cookie(Table.CONDUCT))


def _senders(port: int) -> tuple[LearnHost, ...]:
    return (LearnHost(port, Source.ETHERNET),)


def _sender_rules(port: int) -> Iterator[FlowRule]:
    """Yield the rules that learn who sends from a port. ARP and neighbour discovery also show the sender's address."""
    yield _sender_rule(port, 2)
    yield _sender_rule(port, 30, LearnHost(port, Source.ARP), eth_type=_ARP)
    for kind in _NEIGHBOUR_DISCOVERY:
        of_kind = {"eth_type": FAMILIES[1], "ip_proto": ICMPV6, "icmpv6_type": kind}
        yield _sender_rule(port, 30, LearnHost(port, Source.NEIGHBOUR), **of_kind)


def _sender_rule(port: int, priority: int, *more: LearnHost, **fields: MatchValue) -> FlowRule:
    match = match_on(in_port=port_number(port), **fields)
    actions = (*_senders(port), *more)
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
