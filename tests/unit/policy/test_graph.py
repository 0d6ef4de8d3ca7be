# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sluice.policy.network.graph import Host, Port, Topology, host, switch

RATE = 100_000_000


@pytest.fixture
def two_leaves() -> Topology:
    """Return h1 - s1 = (s3, s4) = s2 - h2: two leaves, two spines."""
    links = [("s1", 2, "s3", 1), ("s1", 3, "s4", 1), ("s2", 2, "s3", 2), ("s2", 3, "s4", 2)]
    ports = [Port("s1", 1, "h1", 0, RATE, edge=True), Port("s2", 1, "h2", 0, RATE, edge=True)]
    for a, a_port, b, b_port in links:
        ports += [Port(a, a_port, b, b_port, RATE), Port(b, b_port, a, a_port, RATE)]
    return Topology("leaf-spine", (host(1), host(2)), tuple(switch(i) for i in range(1, 5)), tuple(ports))


def test_next_ports__equal_costs_up_then_down(two_leaves: Topology) -> None:
    assert [p.peer for p in two_leaves.next_ports("s1", "h2")] == ["s3", "s4"]
    assert [p.id for p in two_leaves.next_ports("s3", "h2")] == ["s3:2"]
    assert [p.id for p in two_leaves.next_ports("s2", "h2")] == ["s2:1"]


def test_one_path__ends_at_the_host(two_leaves: Topology) -> None:
    assert [p.id for p in two_leaves.one_path("h1", "h2")] == ["s1:2", "s3:2", "s2:1"]


def test_spanning_tree__connects_all_without_a_loop(two_leaves: Topology) -> None:
    tree = two_leaves.spanning_tree_ports()
    between_switches = [
        (name, n)
        for name, ports in tree.items()
        for n in ports
        if not two_leaves.port_by_id[f"{name}:{n}"].edge
    ]
    assert len(between_switches) == 2 * (len(two_leaves.switches) - 1)
    assert all(set(tree[port.switch]) >= {port.number} for port in two_leaves.ports if port.edge)


def test_document__round_trips_through_json(two_leaves: Topology) -> None:
    assert Topology.from_document(json.loads(json.dumps(two_leaves.to_document()))) == two_leaves


def test_host__addresses_follow_from_the_index() -> None:
    assert host(300).ipv4 == "10.0.1.44"
    assert host(300).mac == "02:00:00:00:01:2c"
    assert host(300).interface == "h300-eth0"


def test_paths_avoid_links_that_are_down(two_leaves: Topology) -> None:
    down = ("s1:2", "s3:1")
    ports = tuple(replace(port, up=port.id not in down) for port in two_leaves.ports)
    network = replace(two_leaves, ports=ports)
    assert [p.id for p in network.next_ports("s1", "h2")] == ["s1:3"]
    assert 2 not in network.spanning_tree_ports()["s1"]


def test_next_ports__none_without_a_path(two_leaves: Topology) -> None:
    cut = replace(two_leaves, ports=tuple(replace(port, up=port.edge) for port in two_leaves.ports))
    assert cut.next_ports("s1", "h2") == ()
    assert cut.spanning_tree_ports() == {"s1": (1,), "s2": (1,), "s3": (), "s4": ()}


def test_edge_port__of_hosts_behind_one_port(two_leaves: Topology) -> None:
    behind = Host("vm", "02:00:00:00:99:01", "", "", port="s1:1")
    network = replace(two_leaves, hosts=(*two_leaves.hosts, behind))
    assert network.edge_port("vm").id == "s1:1"
    assert [p.peer for p in network.next_ports("s2", "vm")] == ["s3", "s4"]
