# SPDX-License-Identifier: Apache-2.0
"""Topologies that a scenario names, and networks from files."""

import json
from itertools import permutations
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
def test_what_every_topology_has(kind: str) -> None:
    """Links with two ends, ports without holes, hosts that reach each other, and a document."""
    graph = built(kind, host_rate_bps=20_000_000)
    assert Topology.from_document(graph.to_document()) == graph
    for ports in graph.ports_of.values():
        assert [port.number for port in ports] == list(range(1, len(ports) + 1))
    assert sorted(port.peer for port in graph.ports if port.edge) == sorted(graph.host_by_name)
    for source, to in permutations(graph.hosts, 2):
        assert graph.one_path(source.name, to.name)[-1].peer == to.name
    for port in graph.ports:
        if not port.edge:
            other = graph.port_by_id[f"{port.peer}:{port.peer_port}"]
            assert (other.peer, other.peer_port) == (port.switch, port.number)
            assert (other.rate_bps, other.delay_ns) == (port.rate_bps, port.delay_ns)


def test_dumbbell__all_traffic_between_the_sides_crosses_the_one_core_link() -> None:
    graph = topologies.build("dumbbell", left=3, right=2, host_rate_bps=10**8, core_rate_bps=10**7)
    path = graph.one_path("h1", "h5")
    assert [port.id for port in path] == ["s1:4", "s2:2"]
    assert [port.rate_bps for port in path] == [10**7, 10**8]


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


@pytest.mark.parametrize(
    ("kind", "parameters", "field"),
    [
        ("ring", {}, "topology"),
        ("single", {"hosts": 1}, "hosts"),
        ("single", {"hosts": 10**6}, "hosts"),
        ("single", {"hosts": True}, "hosts"),
        ("single", {"leaves": 2}, "leaves"),
        ("leaf-spine", {"core_rate_bps": 10**15}, "core_rate"),
        ("leaf-spine", {"host_delay_ns": None}, "host_delay"),
    ],
)
def test_build__refuses_and_names_the_field(kind: str, parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as error:
        topologies.build(kind, **parameters)
    assert error.value.field == field


LINKS = 'links = ["h1-s1", "h2-s1"]\n'


def build(folder: Path, text: str) -> Topology:
    file = folder / "net.toml"
    file.write_text(text)
    return topologies.build("file", file=str(file))


def test_packets_take_the_short_way_around_the_ring() -> None:
    graph = topologies.build("file", file=str(RING))
    assert [port.id for port in graph.one_path("h1", "h4")] == ["s1:4", "s3:1"]
    assert graph.has_loop


def test_links_have_the_values_of_the_fabric_or_their_own() -> None:
    graph = topologies.build("file", file=str(RING), core_rate_bps=10**7, link_delay_ns=500, host_delay_ns=20)
    values = {port.id: (port.rate_bps, port.delay_ns) for port in graph.ports}
    assert values["s1:1"] == (10**8, 520)
    assert values["s1:3"] == values["s2:2"] == (10**7, 500)
    assert values["s1:4"] == values["s3:3"] == (4 * 10**7, 10**6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("links = []", r"links: must name 2 to 10000 hosts \(h1, h2, …\), not 0"),
        ('links = ["h1-s1", "h2"]', r'links\[1\]: must be two ends such as "h1-s1" or "s1-s2".*not "h2"'),
        (LINKS + '[[link]]\nbetween = "s1-s1"', r'link\[0\].between: "s1-s1" has the same node at both ends'),
        (LINKS + '[[link]]\nbetween = "h1-h2"', r'link\[0\].between: "h1-h2" joins two hosts'),
        (LINKS + '[[link]]\nbetween = "s1-h2"', r'"s1-h2" is in the file already, as links\[1\]'),
        (LINKS + '[[link]]\nbetween = "s2-h2"', r"h2 has a link already, links\[1\]; a host has one link"),
        (LINKS + '[[link]]\nrate = "1Gbit"', r"link\[0\].between: is missing"),
        (LINKS + '[[link]]\nbetween = "s1-s2"\nrat = "1Gbit"', r"link\[0\].rat: .*did you mean rate"),
        ('links = ["h1-s1", "h3-s1"]', "links: must name h2: hosts are numbered 1, 2, … without a gap"),
        ('links = ["h1-s2", "h2-s2"]', "links: must name s1: switches are numbered"),
        ('links = ["h1-s1", "h2-s2"]', "links: leave no path between s1 and s2"),
        ("linsk = []", r"linsk: is not a key here \(did you mean link\?\)"),
        ("links = [", "is not TOML"),
    ],
)
def test_a_wrong_file_is_answered_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FieldError, match=message) as refused:
        build(tmp_path, text)
    assert refused.value.field == "file"
    assert "net.toml" in str(refused.value)


def test_a_missing_file_and_a_missing_key(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"file: cannot read .*nothing.toml \(No such file or directory\)"):
        topologies.build("file", file=str(tmp_path / "nothing.toml"))
    with pytest.raises(FieldError, match="file: is missing"):
        topologies.build("file")
