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
from tests.kit.pages import DOCS, of_order

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


# Networks from GraphML files. What they share with those from TOML files is above.


KEYS = '<key id="d0" for="edge" attr.name="rate"/><key id="d1" for="edge" attr.name="rat"/>'


def file_of(folder: Path, nodes: str, *edges: str) -> str:
    """Return the path of a GraphML file with these nodes, and with edges such as "h1-s1", or "h1-s1 d0=1Gbit"."""
    tags = [f'<node id="{name}"/>' for name in nodes.split()]
    for edge in edges:
        ends, _, data = edge.partition(" ")
        source, _, target = ends.partition("-")
        key, _, value = data.partition("=")
        inner = f'<data key="{key}">{value}</data>' if data else ""
        tags.append(f'<edge source="{source}" target="{target}">{inner}</edge>')
    return text_file(folder, f"<graphml>{KEYS}<graph>{''.join(tags)}</graph></graphml>")


def text_file(folder: Path, text: str) -> str:
    path = folder / "net.graphml"
    path.write_text(text)
    return str(path)


def build_file(file: str) -> Topology:
    return topologies.build("file", file=file)


def test_the_same_network_as_from_toml() -> None:
    values = {"core_rate_bps": 10**7, "link_delay_ns": 500}
    toml, graph = (
        topologies.build("file", file=str(RING.with_suffix(s)), **values) for s in (".toml", ".graphml")
    )
    assert (graph.hosts, graph.switches, graph.ports) == (toml.hosts, toml.switches, toml.ports)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    [block] = [one for one in of_order(DOCS / "how-to" / "plugins.md", "save") if ".graphml" in one.argument]
    ports = build_file(text_file(tmp_path, block.text)).ports
    assert [(port.peer, port.rate_bps) for port in ports if port.peer == "h2"] == [("h2", 40 * 10**6)]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("h1 h2", ["h1-h2"], r'edge\[0\]: "h1-h2" joins two hosts'),
        ("h1 h2 s1", ["h1-s1", "h2-s2"], r'edge\[1\].target: "s2" is not the id of a node'),
        ("h1 h2 s1", ["h1-s1", "h2-s1", "s1-h2"], r'edge\[2\]: "s1-h2" is in the file already, as edge\[1\]'),
        ("h1 h2 s1", ["h1-s1 d0=fast", "h2-s1"], r"edge\[0\].rate: \"fast\" is not a quantity"),
        ("h1 h2 s1 s2", ["h1-s1", "h2-s1"], 'node: "s2" has no edge'),
    ],
)
def test_a_wrong_graph_is_answered_with_the_place(
    tmp_path: Path, nodes: str, edges: list[str], message: str
) -> None:
    with pytest.raises(FieldError, match=message) as refused:
        build_file(file_of(tmp_path, nodes, *edges))
    assert refused.value.field == "file"
    assert "net.graphml" in str(refused.value)


HOSTS = '<edge source="h1" target="s1"/><edge source="h2" target="s1">{}</edge></graph></graphml>'
NODES = '<graph><node id="h1"/><node id="h2"/><node id="s1">{}</node>'


@pytest.mark.parametrize(
    ("text", "rates_bps"),
    [
        (
            '<graphml><key id="d" for="edge" attr.name="rate"><default>10Mbit</default></key>'
            + NODES.format("")
            + HOSTS.format('<data key="d">2500000.0</data>'),
            [10 * 10**6, 2_500_000],
        ),
        (
            '<?xml version="1.0" encoding="ISO-8859-1"?><graphml><key id="n" attr.name="label"/>'
            '<key id="s" for="edge" attr.name="date"/>'
            + NODES.format('<data key="n">K\xf6ln</data>')
            + HOSTS.format('<data key="s">2011-05</data>'),
            [10**7, 10**7],
        ),
        (
            '\ufeff<graphml><graph><node id="n0"><data><y><NodeLabel>h1</NodeLabel></y></data></node>'
            '<node id="n1"><data><y><NodeLabel> h2 </NodeLabel></y></data></node>'
            '<node id="n2"><data><y><NodeLabel>s1</NodeLabel></y></data></node>'
            '<edge source="n0" target="n2"/><edge source="n1" target="n2"/></graph></graphml>',
            [10**7, 10**7],
        ),
    ],
)
def test_graphs_as_editors_write_them(tmp_path: Path, text: str, rates_bps: list[int]) -> None:
    """Defaults count, a rate without a unit is in bit/s, ids win over cities, and the first line says the encoding."""
    path = tmp_path / "net.graphml"
    path.write_bytes(text.encode("latin-1" if "ISO" in text else "utf-8"))
    network = topologies.build("file", file=str(path), host_rate_bps=10**7)
    assert [(port.peer, port.rate_bps) for port in network.ports] == list(
        zip(("h1", "h2"), rates_bps, strict=True)
    )


def test_two_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    text = (
        '<graphml><key id="n" attr.name="name"/><graph><node id="a"><data key="n">s1</data></node>'
        '<node id="b"><data key="n">s1</data></node></graph></graphml>'
    )
    with pytest.raises(FieldError, match=r'node\[1\]: is "s1", as node\[0\] is'):
        build_file(text_file(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('links = ["h1-s1"]', "graphml: the file is not XML: syntax error: line 1"),
        ("<svg/>", "graphml: must hold one graph, not 0"),
        ("<graphml><graph/><graph/></graphml>", "graphml: must hold one graph, not 2"),
        ("<graphml><graph/></graphml>", "edges: must name 2 to 10000 hosts"),
        ("<graphml><graph><hyperedge/></graph></graphml>", "hyperedge: is not a link"),
        ("<graphml><graph><node/></graph></graphml>", r"node\[0\].id: is missing"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "DOCTYPE: is not allowed here"),
    ],
)
def test_another_text_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        build_file(text_file(tmp_path, text))
