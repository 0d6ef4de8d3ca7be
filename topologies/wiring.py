# SPDX-License-Identifier: Apache-2.0
"""What topologies share: the two kinds of link, the check of parameters, and links that are down from the start."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sluice.policy.errors import FieldError, shortened, unknown_key
from sluice.policy.network.graph import Host, Links, Port, Switch, Topology
from sluice.policy.schema.entries import entries
from sluice.policy.schema.kinds import Quantity


def host_link(switch: Switch, number: int, host: Host, links: Links) -> Port:
    """The switch port of a host."""
    return Port(
        switch=switch.name,
        number=number,
        peer=host.name,
        peer_port=0,
        rate_bps=links.host_rate_bps,
        delay_ns=links.link_delay_ns + links.host_delay_ns,
        edge=True,
    )


def core_link(a: Switch, a_number: int, b: Switch, b_number: int, links: Links) -> tuple[Port, Port]:
    """The two ports of a link between switches."""
    rate_bps, delay_ns = links.core_rate_bps, links.link_delay_ns
    return (
        Port(a.name, a_number, b.name, b_number, rate_bps, delay_ns),
        Port(b.name, b_number, a.name, a_number, rate_bps, delay_ns),
    )


Parameters = TypeVar("Parameters", bound=Links)


def checked(cls: type[Parameters], parameters: Mapping[str, Any]) -> Parameters:
    """Return the defaults with the given values. FieldError names the key as a scenario writes it."""
    keys = {entry.name: entry for entry in entries(cls)}
    for name in parameters:
        if name not in keys:
            raise unknown_key(name, name, [entry.key for entry in keys.values()])
    for entry in keys.values():
        if entry.is_required and entry.name not in parameters:
            raise FieldError(entry.key, f"is missing; it must be {entry.kind.allowed}")
    values = {}
    for name, value in parameters.items():
        kind = keys[name].kind
        base = replace(kind, bare=True) if isinstance(kind, Quantity) else kind
        values[name] = base.read(keys[name].key, value)
    return cls(**values)


KEY = "down"


def without(topology: Topology, links: Sequence[str]) -> Topology:
    """Return the network with these links between switches down, each named as "s1-s5".

    Raises FieldError if there is no such link, or if a host can no longer be reached.
    """
    names = {f"{port.switch}-{port.peer}" for port in topology.ports if not port.edge}
    for link in links:
        if link not in names:
            hint = "this network has no link between switches"
            if names:
                hint = f"links between switches are named as in {min(names)}"
            raise FieldError(KEY, f"has no link {shortened(link)}; {hint}")
    dead = {frozenset(link.split("-")) for link in links}
    ports = tuple(
        replace(port, up=False) if frozenset((port.switch, port.peer)) in dead else port
        for port in topology.ports
    )
    remaining = replace(topology, ports=ports, parameters={**topology.parameters, KEY: list(links)})
    if dead:
        edges = {port.switch for port in ports if port.edge}
        reached = remaining.distances_to_switch(min(edges))
        if cut := sorted(edges - reached.keys()):
            raise FieldError(KEY, f"leaves no path between the hosts of {min(edges)} and of {cut[0]}")
    return remaining
