# SPDX-License-Identifier: Apache-2.0
"""Networks from GraphML files. test_from_file.py has what they share with those from TOML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice import topologies
from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Topology
from tests.kit.pages import DOCS, of_order
from tests.unit.topologies.test_topologies import RING

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


def build(file: str) -> Topology:
    return topologies.build("file", file=file)


def test_the_same_network_as_from_toml() -> None:
    values = {"core_rate_bps": 10**7, "link_delay_ns": 500}
    toml, graph = (
        topologies.build("file", file=str(RING.with_suffix(s)), **values) for s in (".toml", ".graphml")
    )
    assert (graph.hosts, graph.switches, graph.ports) == (toml.hosts, toml.switches, toml.ports)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    [block] = [one for one in of_order(DOCS / "how-to" / "plugins.md", "save") if ".graphml" in one.argument]
    ports = build(text_file(tmp_path, block.text)).ports
    assert [(port.peer, port.rate_bps) for port in ports if port.peer == "h2"] == [("h2", 40 * 10**6)]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("h1 h2", ["h1-h2"], r'edge\[0\]: "h1-h2" joins two hosts'),
        ("h1 a", ["h1-a"], r'edge\[0\]: must be two ends .*not "h1-a"'),
        ("h1 h2 s1", ["h1-s1", "h2-s2"], r'edge\[1\].target: "s2" is not the id of a node'),
        ("h1 h2 s1", ["h1-s1", "h2-s1", "s1-h2"], r'edge\[2\]: "s1-h2" is in the file already, as edge\[1\]'),
        ("h1 h2 s1", ["h1-s1 d0=5", "h2-s1"], r"edge\[0\].rate: \"5\" is not a quantity"),
        (
            "h1 h2 s1",
            ["h1-s1 d1=1Gbit", "h2-s1"],
            r"edge\[0\].rat: is not a key here \(did you mean rate\?\)",
        ),
        ("h1 h2 s1 s2", ["h1-s1", "h2-s1"], 'node: "s2" has no edge'),
        ("h1 h3 s1", ["h1-s1", "h3-s1"], "edges: must name h2: hosts are numbered"),
        ("h1 h2 s1 s2", ["h1-s1", "h2-s2"], "edges: leave no path between s1 and s2"),
    ],
)
def test_a_wrong_graph_is_answered_with_the_place(
    tmp_path: Path, nodes: str, edges: list[str], message: str
) -> None:
    with pytest.raises(FieldError, match=message) as refused:
        build(file_of(tmp_path, nodes, *edges))
    assert refused.value.field == "file"
    assert "net.graphml" in str(refused.value)


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
        build(text_file(tmp_path, text))


def test_graphml_under_another_name_is_answered_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text("<graphml/>")
    with pytest.raises(FieldError, match=r"is not TOML: .*the name of a GraphML file ends with \.graphml"):
        build(str(path))
