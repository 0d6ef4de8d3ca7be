# SPDX-License-Identifier: Apache-2.0
"""A network from a file that lists its links: in TOML, in GraphML, or as HPCC's ns-3 has it.

Hosts are h1, h2, …, and switches s1, s2, …; their addresses follow from the numbers. The ports of a switch have the
numbers 1, 2, … in the order in which the file names its links.

The links of a GraphML file are read as tables with the keys of a [[link]]. A node is h1, h2, … or s1, s2, …: its id if
that has this form, otherwise its data `name` or `label`, or its label in yEd. An edge is a link, and its data `rate`
and `delay` are texts such as "40Mbit" and "1ms", or the default of their keys; a rate without a unit is in bit/s. Other
data, for example coordinates for drawing, has no effect. Two edges between the same switches are two links.

With `hosts_per_switch`, the file names no hosts: each switch gets so many. In a GraphML file, for example of the
Topology Zoo, the nodes are then s1, s2, … in their order, whatever they are called.

A file of HPCC's ns-3 begins with the numbers of nodes, switches and links, and with the nodes that are switches. Then
each line is a link: two nodes, its rate, its delay, and its part of lost packets. Hosts and switches keep their order.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from sluice.policy.errors import FieldError, shortened
from sluice.policy.network.graph import DELAY, RATE, Links, Port, Topology, host, switch
from sluice.policy.schema.entries import TableOf, entry, read
from sluice.policy.schema.kinds import ListOf, Text, Whole
from sluice.runtime.toml import NotToml, parse_toml
from sluice.topologies.wiring import core_link, host_link

log = logging.getLogger(__name__)

SUFFIXES = (".graphml", ".xml")
_NAMES = ("name", "label")
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_NODE = re.compile(r"[hs][1-9][0-9]*")
_VALUES = ("rate", "delay")
_LOOKS_LIKE_VALUE = re.compile("band|capac|speed|rate|delay|latenc", re.IGNORECASE)
Table = dict[str, str]
Element = ElementTree.Element


def tables(text: str, as_switches: bool = False) -> list[tuple[str, Table]]:
    """Return the place in the file and the table of each edge. Raises FieldError that names the place.

    With `as_switches`, all nodes are switches, numbered in their order.
    """
    graph, keys, defaults = _graph(text)
    names: dict[str, str] = {}
    places: dict[str, int] = {}
    for i, node in enumerate(_all(graph, "node")):
        data, node_id = _data(node, keys), node.get("id")
        if node_id is None:
            raise FieldError(f"node[{i}].id", 'is missing; give each node one, for example id="h1"')
        drawn = (part.text or "" for part in node.iter() if _tag(part) == "NodeLabel")
        given = next((data[key] for key in _NAMES if key in data), next(drawn, node_id).strip())
        own = node_id if _NODE.fullmatch(node_id) else given
        name = names[node_id] = f"s{i + 1}" if as_switches else own
        if places.setdefault(name, i) != i:
            raise FieldError(
                f"node[{i}]", f"is {shortened(name)}, as node[{places[name]}] is; give each a name"
            )
    edges = [
        (f"edge[{i}]", defaults | _table(f"edge[{i}]", edge, names, keys))
        for i, edge in enumerate(_all(graph, "edge"))
    ]
    linked = {end for _, table in edges for end in table["between"].split("-")}
    _name_ignored(graph, keys)
    if lone := next((name for name in names.values() if name not in linked), None):
        raise FieldError("node", f"{shortened(lone)} has no edge; remove it, or give it one")
    return edges


def _name_ignored(graph: Element, keys: Mapping[str, str]) -> None:
    """Warn of data of edges that looks like a rate or a delay, and has another name."""
    used = {key for edge in _all(graph, "edge") for key in _data(edge, keys)}
    if ignored := sorted(key for key in used if key not in _VALUES and _LOOKS_LIKE_VALUE.search(key)):
        log.warning('data %s of edges has no effect; call it "rate" or "delay"', ", ".join(ignored))


def _decoded(data: bytes) -> str:
    """Return the text of an XML file. Its first line says the encoding; without that it is UTF-8."""
    declared = re.match(rb"<\?xml[^>]*encoding=[\"\']([A-Za-z0-9._-]+)", data)
    return data.decode(declared[1].decode() if declared else "utf-8-sig").removeprefix("\ufeff")


def _graph(text: str) -> tuple[Element, Mapping[str, str], Table]:
    """Return the only graph of the file, the name of each key of data by its id, and the defaults of edges."""
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
    names = {key.get("id", ""): key.get("attr.name", key.get("id", "")) for key in _all(root, "key")}
    return graphs[0], names, _defaults(root, names)


def _defaults(root: Element, names: Mapping[str, str]) -> Table:
    """Return what an edge has without data of its own: rate and delay, if their keys have a default."""
    found = {}
    for key in _all(root, "key"):
        default, name = _all(key, "default"), names[key.get("id", "")]
        if key.get("for", "all") in ("edge", "all") and name in _VALUES and default:
            found[name] = (default[0].text or "").strip()
    return found


def _table(where: str, edge: Element, names: Mapping[str, str], keys: Mapping[str, str]) -> Table:
    ends = []
    for side in ("source", "target"):
        node = edge.get(side)
        if node is None:
            raise FieldError(f"{where}.{side}", "is missing; it must be the id of a node")
        if node not in names:
            raise FieldError(f"{where}.{side}", f"{shortened(node)} is not the id of a node")
        ends.append(names[node])
    table = {"between": "-".join(ends)}
    values = {key: value for key, value in _data(edge, keys).items() if key in _VALUES}
    if _NUMBER.fullmatch(values.get("rate", "")):
        values["rate"] = f"{round(float(values['rate']))}bit"
    return table | values


def _data(element: Element, keys: Mapping[str, str]) -> Table:
    """Return the data of a node or an edge by the names of its keys."""
    texts = {data.get("key", ""): (data.text or "").strip() for data in _all(element, "data")}
    return {keys.get(key, key): text for key, text in texts.items()}


def _all(parent: Element, tag: str) -> list[Element]:
    return [child for child in parent if _tag(child) == tag]


def _tag(element: Element) -> str:
    """Return a tag without its namespace."""
    return element.tag.rpartition("}")[2]


KIND = "file"

MOST_HOSTS, MOST_SWITCHES = 10_000, 1000
_MOST_LINKS = 100_000
_BETWEEN = re.compile(r"([hs])([1-9][0-9]{0,4})-([hs])([1-9][0-9]{0,4})")
_LINK = Text(longest=64, what='two ends, for example "h1-s1" or "s1-s2"')


@dataclass(frozen=True, kw_only=True)
class Parameters(Links):
    file: str = entry(
        Text(pattern=r"[^\x00]+", longest=4096, what="the path of a TOML or GraphML file"),
        'A TOML file with links = ["h1-s1", "s1-s2", …], and a [[link]] for each link with a rate or delay of its own. '
        "Or a GraphML file (.graphml) whose edges are the links, with data rate and delay. Or a topology of HPCC's"
        " ns-3.",
    )
    hosts_per_switch: int = entry(
        Whole(0, MOST_HOSTS),
        "Hosts at each switch, if the file names none. Nodes of a GraphML file are then switches, in their order.",
        default=0,
    )


@dataclass(frozen=True)
class OwnLink:
    """A [[link]] of the file: a link with a rate or a delay of its own."""

    between: str = entry(_LINK, "The two ends.")
    rate_bps: int | None = entry(RATE, "Rate. By default as in [fabric].", key="rate", default=None)
    delay_ns: int | None = entry(
        DELAY, "Propagation delay. By default as in [fabric].", key="delay", default=None
    )


@dataclass(frozen=True)
class File:
    """The whole file."""

    links: tuple[str, ...] = entry(
        ListOf(_LINK, longest=_MOST_LINKS), "Links with the rates and delays of [fabric].", default=()
    )
    link: tuple[OwnLink, ...] = entry(
        ListOf(TableOf(OwnLink), longest=_MOST_LINKS), "Links with values of their own.", default=()
    )


def build(values: Parameters) -> Topology:
    """Return the network of the file. Raises FieldError that names the file and the link."""
    path = Path(values.file)
    try:
        if path.suffix.lower() in SUFFIXES:
            text = _decoded(path.read_bytes())
            read_tables = tables(text, as_switches=values.hosts_per_switch > 0)
            edges = [(where, read(OwnLink, table, where)) for where, table in read_tables]
            return _network("edges", edges, values)
        text = path.read_text(encoding="utf-8-sig")
        if _NS3.match(text):
            edges = [(where, read(OwnLink, table, where)) for where, table in _ns3_tables(text)]
            return _network("links", edges, values)
        file = read(File, parse_toml(text))
        links = [(f"links[{i}]", OwnLink(ends)) for i, ends in enumerate(file.links)]
        links += [(f"link[{i}].between", link) for i, link in enumerate(file.link)]
        return _network("links", links, values)
    except OSError as error:
        raise FieldError(
            "file", f"cannot read {path} ({error.strerror}); give a TOML or GraphML file"
        ) from None
    except UnicodeDecodeError as error:
        raise FieldError("file", f"{path} is not text in {error.encoding}: {error.reason}") from None
    except LookupError as error:
        raise FieldError("file", f"{path}: {error}; write it in UTF-8") from None
    except NotToml as error:
        problem = f"{path} is not TOML: {error}; the name of a GraphML file ends with .graphml"
        raise FieldError("file", problem) from None
    except FieldError as error:
        raise FieldError("file", f"{path}: {error}") from None


_NS3 = re.compile(r"\s*[0-9]+\s+[0-9]+\s+[0-9]+\s*\n")
_NS3_UNITS = {"Gbps": "Gbit", "Mbps": "Mbit", "Kbps": "kbit", "bps": "bit"}


def _ns3_tables(text: str) -> list[tuple[str, Table]]:
    """Return the place and the table of each link of a file of HPCC's ns-3. Raises FieldError that names the line."""
    lines = [(f"line {i}", line.split()) for i, line in enumerate(text.splitlines(), start=1) if line.split()]
    nodes, count, links = map(int, lines[0][1])
    switches: list[str] = []
    first = 1
    while first < len(lines) and len(switches) < count:
        switches += lines[first][1]
        first += 1
    names = {number: f"s{i}" for i, number in enumerate(switches, start=1)}
    hosts = (str(number) for number in range(nodes) if str(number) not in names)
    names |= {number: f"h{i}" for i, number in enumerate(hosts, start=1)}
    if len(lines) - first < links:
        raise FieldError("line 1", f"says {links} links, but {len(lines) - first} lines follow the switches")
    return [(place, _ns3_link(place, words, names)) for place, words in lines[first : first + links]]


def _ns3_link(place: str, words: list[str], names: Mapping[str, str]) -> Table:
    if len(words) != 5 or not {*words[:2]} <= names.keys():
        raise FieldError(place, f"must be two nodes, rate, delay and loss, not {shortened(' '.join(words))}")
    if words[4].strip("0.") != "":
        raise FieldError(place, f"has the loss {words[4]}, but links here lose nothing: write 0")
    rate = re.sub("[A-Za-z]+$", lambda unit: _NS3_UNITS.get(unit[0], unit[0]), words[2])
    return {"between": f"{names[words[0]]}-{names[words[1]]}", "rate": rate, "delay": words[3]}


End = tuple[str, int]
"""Kind and number of a node."""
PlacedLink = tuple[str, OwnLink]
"""Where in the file the ends of a link are, and the link."""


def _network(what: str, links: Sequence[PlacedLink], values: Parameters) -> Topology:
    """Return the network of these links, which the file calls `what`."""
    ends = [_ends(where, link.between) for where, link in links]
    if values.hosts_per_switch:
        links = [*links, *_hosts(what, ends, values.hosts_per_switch)]
        ends = [_ends(where, link.between) for where, link in links]
    _check_once(links, ends, may_be_parallel=what == "edges")
    hosts = sorted({number for pair in ends for kind, number in pair if kind == "h"})
    switches = sorted({number for pair in ends for kind, number in pair if kind == "s"})
    _check_numbers(what, "h", hosts, 2, MOST_HOSTS)
    _check_numbers(what, "s", switches, 1, MOST_SWITCHES)
    used: Counter[int] = Counter()
    ports = [
        port for (_, link), pair in zip(links, ends, strict=True) for port in _ports(link, pair, values, used)
    ]
    network = Topology(
        KIND, tuple(map(host, hosts)), tuple(map(switch, switches)), tuple(ports), asdict(values)
    )
    edges = sorted({port.switch for port in ports if port.edge})
    reached = network.distances_to_switch(edges[0])
    if cut := [node.name for node in network.switches if node.name not in reached]:
        raise FieldError(what, f"leave no path between {edges[0]} and {cut[0]}")
    return network


def _hosts(what: str, ends: Iterable[tuple[End, End]], number: int) -> list[PlacedLink]:
    """Return the links of so many hosts at each switch."""
    nodes = {node for pair in ends for node in pair}
    if any(kind == "h" for kind, _ in nodes):
        raise FieldError("hosts_per_switch", f"the {what} name hosts already; leave it out")
    at = [switch for _, switch in sorted(nodes) for _ in range(number)]
    return [("hosts_per_switch", OwnLink(f"h{i}-s{switch}")) for i, switch in enumerate(at, start=1)]


def _ends(where: str, text: str) -> tuple[End, End]:
    """Return the ends of a link; if one is a host, it comes second."""
    match = _BETWEEN.fullmatch(text)
    if match is None:
        raise FieldError(
            where,
            'must be two ends such as "h1-s1" or "s1-s2", hosts h1, h2, … and switches s1, s2, …, '
            f"not {shortened(text)}",
        )
    first, second = (match[1], int(match[2])), (match[3], int(match[4]))
    if first == second:
        raise FieldError(where, f"{shortened(text)} has the same node at both ends")
    if first[0] == second[0] == "h":
        raise FieldError(where, f"{shortened(text)} joins two hosts; a link needs a switch at one end")
    return (second, first) if first[0] == "h" else (first, second)


def _check_once(links: Sequence[PlacedLink], ends: Sequence[tuple[End, End]], may_be_parallel: bool) -> None:
    """Check that no link appears twice unless links between switches may, and that each host has one link."""
    seen: dict[object, str] = {}
    for (where, link), pair in zip(links, ends, strict=True):
        is_core = pair[1][0] == "s"
        if (before := seen.get(frozenset(pair))) and not (may_be_parallel and is_core):
            raise FieldError(where, f"{shortened(link.between)} is in the file already, as {before}")
        seen[frozenset(pair)] = where
        kind, number = pair[1]
        if kind == "h":
            if before := seen.get(number):
                raise FieldError(where, f"h{number} has a link already, {before}; a host has one link")
            seen[number] = where


def _check_numbers(where: str, kind: str, numbers: Sequence[int], least: int, most: int) -> None:
    """Check that a kind of node has the numbers 1, 2, … without a gap."""
    what = "hosts" if kind == "h" else "switches"
    if not least <= len(numbers) <= most:
        raise FieldError(
            where, f"must name {least} to {most} {what} ({kind}1, {kind}2, …), not {len(numbers)}"
        )
    missing = next((i for i, number in enumerate(numbers, start=1) if i != number), None)
    if missing is not None:
        raise FieldError(where, f"must name {kind}{missing}: {what} are numbered 1, 2, … without a gap")


def _ports(link: OwnLink, pair: tuple[End, End], values: Links, used: Counter[int]) -> Iterable[Port]:
    """Return the ports of a link. `used` counts the ports of each switch."""
    (_, number), (kind, other) = pair
    used[number] += 1
    if kind == "h":
        ports: tuple[Port, ...] = (host_link(switch(number), used[number], host(other), values),)
    else:
        used[other] += 1
        ports = core_link(switch(number), used[number], switch(other), used[other], values)
    return [
        replace(
            port,
            rate_bps=port.rate_bps if link.rate_bps is None else link.rate_bps,
            delay_ns=port.delay_ns if link.delay_ns is None else link.delay_ns,
        )
        for port in ports
    ]
