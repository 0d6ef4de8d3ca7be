# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sluice import topologies
from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Topology
from tests.unit.topologies.test_topologies import RING

LINKS = 'links = ["h1-s1", "h2-s1"]\n'


def build(folder: Path, text: str) -> Topology:
    file = folder / "net.toml"
    file.write_text(text)
    return topologies.build("file", file=str(file))


def test_ports_have_the_numbers_in_the_order_of_the_file() -> None:
    graph = topologies.build("file", file=str(RING))
    assert [(port.id, port.peer) for port in graph.ports_of["s1"]] == [
        ("s1:1", "h1"),
        ("s1:2", "h2"),
        ("s1:3", "s2"),
        ("s1:4", "s3"),
    ]
    assert [port.peer for port in graph.ports_of["s2"]] == ["h3", "s1", "s3"]


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
        ("links = 3", "links: must be a list"),
        ("links = []", r"links: must name 2 to 10000 hosts \(h1, h2, …\), not 0"),
        ('links = ["h1-s1", "h2"]', r'links\[1\]: must be two ends such as "h1-s1" or "s1-s2".*not "h2"'),
        ('links = ["h1-s1", "a-b"]', r'links\[1\]: .*not "a-b"'),
        ('links = ["h1-s0"]', r'links\[0\]: .*not "h1-s0"'),
        (LINKS + '[[link]]\nbetween = "s1-s1"', r'link\[0\].between: "s1-s1" has the same node at both ends'),
        (LINKS + '[[link]]\nbetween = "h1-h2"', r'link\[0\].between: "h1-h2" joins two hosts'),
        (LINKS + '[[link]]\nbetween = "s1-h2"', r'"s1-h2" is in the file already, as links\[1\]'),
        (LINKS + '[[link]]\nbetween = "s2-h2"', r"h2 has a link already, links\[1\]; a host has one link"),
        (LINKS + '[[link]]\nrate = "1Gbit"', r"link\[0\].between: is missing"),
        (LINKS + '[[link]]\nbetween = "s1-s2"\nrate = 5', r"link\[0\].rate: "),
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
