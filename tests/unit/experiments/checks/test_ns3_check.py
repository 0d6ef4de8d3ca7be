# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from experiments.checks.ns3 import cases, ns3
from experiments.checks.ns3.compare import Figure
from sluice.policy.network.graph import Topology


def case_named(name: str) -> cases.Case:
    every = (*cases.LONE, *cases.LONG, *cases.INCASTS, *cases.web_cases(50))
    return {case.name: case for case in every}[name]


def lines_of(name: str) -> tuple[Topology, list[list[str]]]:
    _, topology, _ = case_named(name).made(1)
    return topology, [line.split() for line in ns3.network_lines(topology)]


def test_network_lines__routes_keep_the_order_of_equal_cost_ports() -> None:
    topology, lines = lines_of("leaf-spine-0.6")
    nodes = [host.name for host in topology.hosts] + [switch.name for switch in topology.switches]
    links = [line[1:3] for line in lines if line[0] == "link"]
    routes = {
        (int(line[1]), int(line[2])): [int(link) for link in line[3:]] for line in lines if line[0] == "route"
    }
    assert len(routes) == len(topology.switches) * len(topology.hosts)
    for (at, host), ways in routes.items():
        ports = topology.next_ports(nodes[at], nodes[host])
        far_ends = [next(node for node in links[way] if int(node) != at) for way in ways]
        assert [nodes[int(node)] for node in far_ends] == [port.peer for port in ports]


def test_queue_numbers__each_switch_port_has_its_own_end_of_its_own_link() -> None:
    topology, lines = lines_of("leaf-spine-0.6")
    nodes = [host.name for host in topology.hosts] + [switch.name for switch in topology.switches]
    links = [line[1:3] for line in lines if line[0] == "link"]
    queues = ns3.queue_numbers(topology)
    assert len(set(queues)) == len(topology.ports)
    for port, queue in zip(topology.ports, queues, strict=True):
        near, far = links[queue // 2] if queue % 2 == 0 else reversed(links[queue // 2])
        assert (nodes[int(near)], nodes[int(far)]) == (port.switch, port.peer)


@pytest.mark.parametrize(
    ("ours", "theirs", "few", "holds"),
    [
        (100, 105, 0, True),
        (100, 94.9, 0, False),
        (0, 3, 3, True),
        (0, 4, 3, False),
    ],
)
def test_figure__holds_within_its_tolerance(ours: float, theirs: float, few: float, holds: bool) -> None:
    figure = Figure("web: FCT", "us", ours, theirs, 0.05, few)
    assert figure.holds is holds
    assert figure.claim().holds is holds
