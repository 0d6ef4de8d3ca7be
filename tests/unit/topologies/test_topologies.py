# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice import topologies
from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Topology

EVERY_KIND = sorted(topologies.TOPOLOGIES)
RING = Path(__file__).with_name("ring.toml")
NEEDED: dict[str, dict[str, Any]] = {"file": {"file": str(RING)}}
"""Kind → the parameters that have no default."""


def built(kind: str, **parameters: Any) -> Topology:
    return topologies.build(kind, **NEEDED.get(kind, {}), **parameters)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_link_between_switches_appears_as_two_ports_that_name_each_other(kind: str) -> None:
    graph = built(kind)
    for port in graph.ports:
        if not port.edge:
            other = graph.port_by_id[f"{port.peer}:{port.peer_port}"]
            assert (other.peer, other.peer_port) == (port.switch, port.number)
            assert (other.rate_bps, other.delay_ns) == (port.rate_bps, port.delay_ns)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_port_numbers_run_from_one_without_holes(kind: str) -> None:
    graph = built(kind)
    for ports in graph.ports_of.values():
        assert [port.number for port in ports] == list(range(1, len(ports) + 1))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_host_has_one_port_and_reaches_every_other(kind: str) -> None:
    graph = built(kind)
    assert sorted(port.peer for port in graph.ports if port.edge) == sorted(graph.host_by_name)
    for source in graph.hosts:
        for to in graph.hosts:
            if source != to:
                assert graph.one_path(source.name, to.name)[-1].peer == to.name


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_graph_survives_its_document(kind: str) -> None:
    graph = built(kind, host_rate_bps=20_000_000)
    assert Topology.from_document(graph.to_document()) == graph


def test_single__host_n_is_on_port_n() -> None:
    graph = topologies.build("single", hosts=3)
    assert [(port.number, port.peer) for port in graph.ports] == [(1, "h1"), (2, "h2"), (3, "h3")]


def test_dumbbell__all_traffic_between_the_sides_crosses_the_one_core_link() -> None:
    graph = topologies.build("dumbbell", left=3, right=2, host_rate_bps=10**8, core_rate_bps=10**7)
    path = graph.one_path("h1", "h5")
    assert [port.id for port in path] == ["s1:4", "s2:2"]
    assert [port.rate_bps for port in path] == [10**7, 10**8]


def test_leaf_spine__as_many_equal_paths_as_spines() -> None:
    graph = topologies.build("leaf-spine", leaves=3, spines=4, hosts_per_leaf=2)
    assert len(graph.hosts) == 6
    assert len(graph.switches) == 7
    assert len(graph.next_ports("s1", "h6")) == 4
    assert len(graph.next_ports("s4", "h6")) == 1
    assert [port.id for port in graph.next_ports("s1", "h2")] == ["s1:2"]


def test_fat_tree__pods_and_planes() -> None:
    graph = topologies.build("fat-tree", pods=3, edges_per_pod=2, aggregations_per_pod=2, cores_per_plane=3)
    assert len(graph.hosts) == 12
    assert len(graph.switches) == 3 * (2 + 2) + 2 * 3
    assert [len(graph.one_path("h1", other)) for other in ("h2", "h3", "h5")] == [1, 3, 5]
    assert [port.peer for port in graph.next_ports("s1", "h12")] == ["s7", "s8"]
    assert [port.peer for port in graph.next_ports("s7", "h12")] == ["s13", "s14", "s15"]
    assert [port.peer for port in graph.next_ports("s13", "h12")] == ["s11"]
    assert {port.peer for port in graph.ports_of["s16"]} == {"s8", "s10", "s12"}


def test_down__no_path_uses_the_link() -> None:
    graph = topologies.build("fat-tree", down=["s9-s1"])  # either end may come first
    assert not any(port.up for port in graph.ports if {port.switch, port.peer} == {"s1", "s9"})
    assert [port.peer for port in graph.next_ports("s1", "h16")] == ["s10"]
    assert [port.peer for port in graph.next_ports("s8", "h1")] == [
        "s16"
    ]  # not into the plane that has no way down
    assert Topology.from_document(json.loads(json.dumps(graph.to_document()))) == graph


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        (["s1-s99"], 'has no link "s1-s99"; links between switches are named as in s1-s5'),
        (["h1-s1"], 'has no link "h1-s1"'),
        (["s1-s5", "s1-s6"], "leaves no path between the hosts of s1 and of s2"),
    ],
)
def test_down__wrong_links_are_named(links: list[str], problem: str) -> None:
    with pytest.raises(FieldError, match=problem) as error:
        topologies.build("leaf-spine", down=links)
    assert error.value.field == "down"


def test_delays__a_host_link_has_both() -> None:
    graph = topologies.build("dumbbell", link_delay_ns=200, host_delay_ns=20_000)
    assert {port.delay_ns for port in graph.ports if port.edge} == {20_200}
    assert {port.delay_ns for port in graph.ports if not port.edge} == {200}


@pytest.mark.parametrize(
    ("kind", "parameters", "field"),
    [
        ("ring", {}, "topology"),
        ("single", {"hosts": 1}, "hosts"),
        ("single", {"hosts": 10**6}, "hosts"),
        ("single", {"hosts": "3"}, "hosts"),
        ("single", {"hosts": True}, "hosts"),
        ("single", {"hosts": 2.0}, "hosts"),
        ("single", {"leaves": 2}, "leaves"),
        ("dumbbell", {"left": 0}, "left"),
        ("dumbbell", {"right": -1}, "right"),
        ("leaf-spine", {"spines": 0}, "spines"),
        ("leaf-spine", {"host_rate_bps": 0}, "host_rate"),
        ("leaf-spine", {"core_rate_bps": 10**15}, "core_rate"),
        ("leaf-spine", {"link_delay_ns": -1}, "link_delay"),
        ("leaf-spine", {"host_delay_ns": None}, "host_delay"),
    ],
)
def test_build__refuses_and_names_the_field(kind: str, parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as error:
        topologies.build(kind, **parameters)
    assert error.value.field == field
