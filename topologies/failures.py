# SPDX-License-Identifier: Apache-2.0
"""Links of a built network that are down from the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sluice.policy.errors import FieldError, shortened
from sluice.policy.network.graph import Topology

KEY = "down"


def without(topology: Topology, links: Sequence[str]) -> Topology:
    """Return the network with these links between switches down, each named as "s1-s5".

    Raises FieldError if there is no such link, or if a host can no longer be reached.
    """
    known = {f"{port.switch}-{port.peer}" for port in topology.ports if not port.edge}
    for link in links:
        if link not in known:
            raise FieldError(KEY, f"has no link {shortened(link)}; {_examples(known)}")
    dead = {frozenset(link.split("-")) for link in links}
    ports = tuple(
        replace(port, up=False) if frozenset((port.switch, port.peer)) in dead else port
        for port in topology.ports
    )
    left = replace(topology, ports=ports, parameters={**topology.parameters, KEY: list(links)})
    if dead:
        _check_connected(left)
    return left


def _examples(known: set[str]) -> str:
    if not known:
        return "this network has no link between switches"
    return f"links between switches are named as in {min(known)}"


def _check_connected(topology: Topology) -> None:
    edges = {port.switch for port in topology.ports if port.edge}
    reached = topology.distances_to_switch(min(edges))
    if cut := sorted(edges - reached.keys()):
        raise FieldError(KEY, f"leaves no path between the hosts of {min(edges)} and of {cut[0]}")
