# SPDX-License-Identifier: Apache-2.0
"""The links in a GraphML file, as tables with the keys of a [[link]] of a TOML file.

A node is h1, h2, … or s1, s2, …: its data `name` or `label`, otherwise its id. An edge is a link, and its data `rate`
and `delay` are texts such as "40Mbit" and "1ms". Other data, for example coordinates for drawing, has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from sluice.policy.errors import FieldError, guess, shortened

SUFFIXES = (".graphml", ".xml")
_NAMES = ("name", "label")
_VALUES = ("rate", "delay")
Table = dict[str, str]
Element = ElementTree.Element


def tables(text: str) -> list[tuple[str, Table]]:
    """Return the place in the file and the table of each edge. Raises FieldError that names the place."""
    graph, keys = _graph(text)
    names = dict(_nodes(graph, keys))
    edges = [
        (f"edge[{i}]", _table(f"edge[{i}]", edge, names, keys)) for i, edge in enumerate(_all(graph, "edge"))
    ]
    linked = {end for _, table in edges for end in table["between"].split("-")}
    if lone := next((name for name in names.values() if name not in linked), None):
        raise FieldError("node", f"{shortened(lone)} has no edge; remove it, or give it one")
    return edges


def _graph(text: str) -> tuple[Element, Mapping[str, str]]:
    """Return the only graph of the file, and the name of each key of data by its id."""
    if "<!DOCTYPE" in text:  # the declarations in it can make a small file a huge one
        raise FieldError("DOCTYPE", "is not allowed here; remove it")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise FieldError("graphml", f"the file is not XML: {error}") from None
    graphs = _all(root, "graph")
    if _tag(root) != "graphml" or len(graphs) != 1:
        raise FieldError("graphml", f"must hold one graph, not {len(graphs)}; the first tag must be graphml")
    if _all(graphs[0], "hyperedge"):
        raise FieldError("hyperedge", "is not a link; write an edge for each pair of ends")
    return graphs[0], {
        key.get("id", ""): key.get("attr.name", key.get("id", "")) for key in _all(root, "key")
    }


def _nodes(graph: Element, keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield id and name of each node."""
    for i, node in enumerate(_all(graph, "node")):
        data, name = _data(node, keys), node.get("id")
        if name is None:
            raise FieldError(f"node[{i}].id", 'is missing; give each node one, for example id="h1"')
        yield name, next((data[key] for key in _NAMES if key in data), name)


def _table(where: str, edge: Element, names: Mapping[str, str], keys: Mapping[str, str]) -> Table:
    ends = [_end(where, edge, side, names) for side in ("source", "target")]
    table = {"between": "-".join(ends)}
    for key, value in _data(edge, keys).items():
        if key in _VALUES:
            table[key] = value
        elif near := guess(key, _VALUES):
            raise FieldError(f"{where}.{key}", f"is not a key here{near}")
    return table


def _end(where: str, edge: Element, side: str, names: Mapping[str, str]) -> str:
    node = edge.get(side)
    if node is None:
        raise FieldError(f"{where}.{side}", "is missing; it must be the id of a node")
    if node not in names:
        raise FieldError(f"{where}.{side}", f"{shortened(node)} is not the id of a node")
    return names[node]


def _data(element: Element, keys: Mapping[str, str]) -> Table:
    """Return the data of a node or an edge by the names of its keys."""
    found = {data.get("key", ""): (data.text or "").strip() for data in _all(element, "data")}
    return {keys.get(key, key): value for key, value in found.items()}


def _all(parent: Element, tag: str) -> list[Element]:
    return [child for child in parent if _tag(child) == tag]


def _tag(element: Element) -> str:
    """Return a tag without its namespace."""
    return element.tag.rpartition("}")[2]
