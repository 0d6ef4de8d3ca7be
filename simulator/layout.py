# SPDX-License-Identifier: Apache-2.0
"""Lays out the graph of a network on a fabric: hosts, switches, ports and equal-cost routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sluice.policy.network.graph import Port, Topology, ingress_groups
from sluice.policy.units import FRAME_BYTES, PS_PER_NS, PS_PER_S
from sluice.simulator import _fabric
from sluice.simulator.division import Division
from sluice.simulator.paths import Paths

MakePort = Callable[[Port, bool], tuple[_fabric.PortSettings, _fabric.Discipline]]
"""Returns the settings and discipline of a port, by its link and whether the port is a host's own."""


@dataclass(frozen=True)
class Layout:
    """The numbers that the fabric gave to the parts of the graph."""

    host: Mapping[str, int]
    switch: Mapping[str, int]
    port: Mapping[str, int]
    """By port id. Hosts' own ports are not among them: they have the hosts' numbers."""


def near_ps(topology: Topology) -> int:
    """How long before its time nearly every event is added: twice the time of a frame on the slowest link.

    A packet on an empty link arrives later than that, by the link's delay. Once a link carries packets, arrivals follow
    each other closely.
    """
    return 2 * FRAME_BYTES * 8 * PS_PER_S // min(port.rate_bps for port in topology.ports)


def lay_out(
    fabric: _fabric.Fabric,
    topology: Topology,
    make_port: MakePort,
    division: Division,
    *,
    turn_by_host: bool = False,
) -> Layout:
    """Add every port and route of the graph to an empty fabric.

    `turn_by_host`: packets that take equal-cost ports in turn do so for each host, not for each edge switch.
    """
    paths = Paths(topology)
    switches = {switch.name: i for i, switch in enumerate(topology.switches)}
    layout = Layout(host=paths.host_of, switch=switches, port=paths.link_of)
    groups = {switch.name: ingress_groups(topology.ports_of[switch.name]) for switch in topology.switches}
    for number, uplink in enumerate(paths.links[: len(topology.hosts)]):
        switch = layout.switch[uplink.switch]
        parts = division.host[number], division.far[number]
        _add(fabric, uplink, switch, to_host=False, made=make_port(uplink, True), parts=parts)
        fabric.set_ingress_group(number, groups[uplink.switch][uplink.number])
    for port, part in zip(topology.ports, division.port, strict=True):
        peer = layout.host[port.peer] if port.edge else layout.switch[port.peer]
        parts = part, division.far[layout.port[port.id]]
        _add(fabric, port, peer, to_host=port.edge, made=make_port(port, False), parts=parts)
    _route(fabric, paths, layout, turn_by_host=turn_by_host)
    return layout


def _add(
    fabric: _fabric.Fabric,
    link: Port,
    peer: int,
    *,
    to_host: bool,
    made: tuple[_fabric.PortSettings, _fabric.Discipline],
    parts: tuple[int, Sequence[int]],
) -> None:
    settings, discipline = made
    part, far_parts = parts
    fabric.add_port(on_link(settings, link), discipline, peer, to_host, part, far_parts)


def on_link(settings: _fabric.PortSettings, link: Port) -> _fabric.PortSettings:
    """Return the settings with the link's rate, unless they have one, and the link's delay."""
    settings.bps = settings.bps or link.rate_bps
    settings.delay_ps = link.delay_ns * PS_PER_NS
    return settings


def _route(fabric: _fabric.Fabric, paths: Paths, layout: Layout, *, turn_by_host: bool) -> None:
    """The groups of a switch follow each other, so that no two threads write the same cache line."""
    routes = sorted(_routes(paths), key=lambda route: layout.switch[route.switch])
    for route in routes:
        group = fabric.add_group(list(route.ports))
        for name in route.hosts:
            if turn_by_host and len(route.hosts) > 1:
                group = fabric.add_group(list(route.ports))
            fabric.set_route(layout.switch[route.switch], layout.host[name], group)


class _Route(NamedTuple):
    """The numbers of equal-cost ports from a switch to some hosts."""

    switch: str
    ports: Sequence[int]
    hosts: Sequence[str]


def _routes(paths: Paths) -> Iterator[_Route]:
    """Other switches reach all hosts of one edge switch by the same ports."""
    for edge_switch, towards in paths.next_hops.items():
        ports = [port for port in paths.topology.ports_of[edge_switch] if port.edge]
        for port in ports:
            yield _Route(edge_switch, [paths.link_of[port.id]], [port.peer])
        for switch, numbers in towards.items():
            if switch != edge_switch:
                yield _Route(switch, numbers, [port.peer for port in ports])
