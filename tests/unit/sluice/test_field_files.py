# SPDX-License-Identifier: Apache-2.0
"""Files as other simulators have them: flow lists, tables of flows, size distributions and a topology."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice import topologies
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.sizes import parse_cdf
from sluice.runs.files import load_trace, say_once, scenario_with

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    say_once.cache_clear()

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def flows(path: Path) -> list[tuple[float, str, str, int | None]]:
    return [
        (flow.start_s, flow.source, flow.to, flow.bytes) for flow in load_trace(str(path)).workload().flows
    ]


LISTS: dict[str, tuple[str, str, list[tuple[float, str, str, int]]]] = {
    "flow.txt": (
        "3\n0 2 3 100 150000 2.0\n1 2 3 101 20000 2.000012500\n3 2 3 102 40 2.000310000\n\nfirst line: flow #\n",
        "a list of HPCC's ns-3: 3 flows, host 0 is h1; times count from 2 s on; 1 flows of fewer than 64 bytes have 64",
        [(0, "h1", "h3", 150_000), (1.25e-5, "h2", "h3", 20_000), (3.1e-4, "h4", "h3", 64)],
    ),
    "homa.txt": (
        "0 2 310000 0.0\n1 2 14000 0.000013\n2 0 900 0.000001\n",
        "a list of Homa's simulator: 3 flows, host 0 is h1",
        [(0, "h1", "h3", 310_000), (1.3e-5, "h2", "h3", 14_000), (1e-6, "h3", "h1", 900)],
    ),
    "incast.cm": (
        "Nodes 4\nConnections 3\n0->2 start 0 size 310000\n1->2 start 13000000 size 14000\n"
        "3->0 id 7 start 14000000 size 900\n",
        "a list of htsim: 3 flows, host 0 is h1",
        [(0, "h1", "h3", 310_000), (1.3e-5, "h2", "h3", 14_000), (1.4e-5, "h4", "h1", 900)],
    ),
    "epoch.csv": (
        "time_s,src,dst,bytes\n1761000000.125,h1,h3,20000\n1761000000.126,h2,h3,1000000\n",
        "times count from 1761000000.125 on",
        [(0, "h1", "h3", 20_000), (0.001, "h2", "h3", 1_000_000)],
    ),
    "extra.csv": (
        "flow_id,time_s,src,dst,bytes\n7,0,h1,h3,20000\n8,0.001,h2,h3,1000000\n",
        "column flow_id has no effect",
        [(0, "h1", "h3", 20_000), (0.001, "h2", "h3", 1_000_000)],
    ),
    "tiny.csv": ("time_s,src,dst,bytes\n0,h1,h3,3\n", "", [(0, "h1", "h3", 64)]),
    "numbers.csv": (
        "time_s,src,dst,bytes\n0,0,2,20000\n0.001,1,2,1000000\n",
        "hosts are numbered from 0: 0 is h1",
        [(0, "h1", "h3", 20_000), (0.001, "h2", "h3", 1_000_000)],
    ),
    "semicolons.csv": (
        "\ufefftime_s;src;dst;bytes\n0;h1;h3;20000\n0,001;h2;h3;1000000\n",
        "",
        [(0, "h1", "h3", 20_000), (0.001, "h2", "h3", 1_000_000)],
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_flows_is_known_by_its_content_and_one_line_says_how(
    write: Write, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text, said, expected = LISTS[name]
    path = write(name, text)
    assert flows(path) == expected
    assert flows(path) == expected
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == bool(said), "once"
    assert not said or lines[0].startswith(f"{path}: ")
    assert not said or lines[0].endswith(said)


WRONG = [
    ("flow.txt", "2\n0 2 3 100 150000 2.0\n1 2 3 x\n", r'line 3: "1 2 3 x" is no flow of a list as HPCC'),
    (
        "t.cm",
        "Nodes 2\nConnections 1\n0->1 trigger 1 size 5\n",
        r"line 3: .* has no start and size; triggers are not",
    ),
    (
        "x.csv",
        "tiem_s,src,dst,bytes\n0,h1,h2,100\n",
        r'"tiem_s": is not a column here \(did you mean time\?\)',
    ),
    ("x.csv", "note,src,dst,bytes\n0,h1,h2,100\n", r"time: is missing; columns are time, src, dst, bytes"),
    ("x.txt", "hello\n", r"is no list of flows: give a table of flows"),
    ("t.cm", f"Nodes 2\n0->1 start {'9' * 400} size 5\n", r"line 2: .* is no flow of a list as htsim"),
    ("homa.txt", "0 2 900 nan\n", r"line 1: .* is no flow of a list as Homa"),
]


@pytest.mark.parametrize(("name", "text", "problem"), WRONG)
def test_what_is_no_list_is_named_with_its_line(write: Write, name: str, text: str, problem: str) -> None:
    with pytest.raises(FieldError, match=problem):
        flows(write(name, text))


def scenario(**workload: Any) -> dict[str, Any]:
    return {
        "name": "x",
        "seed": 1,
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "1Gbit"},
        "scheme": {"name": "dctcp"},
        "workload": workload,
    }


def test_a_scenario_names_such_a_list_and_its_hosts_must_exist(write: Write) -> None:
    text, _, expected = LISTS["flow.txt"]
    path = write("flow.txt", text)
    resolved = scenario_with(scenario(trace=str(path)))
    workload = resolved.scenario.workload
    assert isinstance(workload, ExplicitWorkload)
    assert [flow.bytes for flow in workload.flows] == [row[3] for row in expected]
    with pytest.raises(FieldError, match=r"workload\.to: is not a key here"):
        scenario_with(scenario(trace=str(path), to="h1"))
    with pytest.raises(SluiceError, match="h4"):
        scenario_with(
            {**scenario(trace=str(path)), "fabric": {"topology": "single", "hosts": 3, "host_rate": "1Gbit"}}
        )


CDFS = {
    "a mean, then steps": (
        "25062.5\n150 0.25\n900 0.5\n4200 1\n",
        "read as Homa's sizes: a mean, then steps",
        (150, 900, 4200),
    ),
    "packets in three columns": (
        "6 1 0\n6 1 0.2\n1400 1 1\n",
        "read as ns-2's sizes: packets of 1460 bytes",
        None,
    ),
    "few bytes": (
        "1 0\n6 0.15\n801 1\n",
        'read as bytes, up to 801; for packets, write "packet_bytes 1460"',
        None,
    ),
    "a rounded sum": ("100 0.1\n2000 0.7\n40000 1.0000000000000002\n", "", None),
}


@pytest.mark.parametrize("name", CDFS)
def test_sizes_of_other_simulators(name: str) -> None:
    text, said, only = CDFS[name]
    cdf = parse_cdf("x", text)
    assert cdf.notice.startswith(said)
    assert cdf.notice == "" or said
    assert cdf.cumulative[-1] == 1
    if only:
        drawn, _ = cdf.at(np.linspace(0, 0.999, 200))
        assert set(drawn.tolist()) == set(only)
        assert cdf.mean_bytes == 0.25 * 150 + 0.25 * 900 + 0.5 * 4200
    if name.startswith("packets"):
        assert cdf.packet_bytes == 1460
        assert cdf.sizes_bytes[-1] == 1400 * 1460


def test_a_file_of_sizes_may_have_any_name_and_a_byte_order_mark(write: Write) -> None:
    path = write("sizes.txt", "\ufeff0 0\n1000 0.3\n100000 100\n".replace("100000 100", "100000 1"))
    resolved = scenario_with(scenario(sizes=str(path), load=0.3, flows=10))
    assert resolved.scenario.workload.sizes.largest_bytes == 100_000  # type: ignore[union-attr]


NS3 = (
    "6 2 5\n4 5\n0 4 100Gbps 1000ns 0.0\n1 4 100Gbps 1us 0\n2 5 25Gbps 1000ns 0.0\n"
    "3 5 25Gbps 1000ns 0.0\n4 5 400Gbps 2000ns 0.0\n"
)


def build(path: Path) -> Any:
    return topologies.build("file", file=str(path), host_rate_bps=10**9, core_rate_bps=10**9)


def test_a_topology_of_ns3(write: Write) -> None:
    graph = build(write("topology.txt", NS3))
    assert [host.name for host in graph.hosts] == ["h1", "h2", "h3", "h4"]
    ports = {port.id: (port.peer, port.rate_bps, port.delay_ns) for port in graph.ports}
    assert ports["s1:1"] == ("h1", 100 * 10**9, 1000)
    assert ports["s2:1"] == ("h3", 25 * 10**9, 1000)
    assert ports["s1:3"] == ("s2", 400 * 10**9, 2000)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("6 2 5", "6 2 9", "says 9 links, but 5 lines follow"),
        (
            "400Gbps 2000ns 0.0",
            "400Gbps 2000ns 0.01",
            "line 7: has the loss 0.01, but links here lose nothing",
        ),
        ("4 5 400Gbps", "4 7 400Gbps", "line 7: must be two nodes, rate, delay and loss"),
        ("25Gbps 1000ns", "25Gpbs 1000ns", "line 5.rate"),
    ],
)
def test_a_wrong_topology_of_ns3_is_named_with_its_line(
    write: Write, old: str, new: str, problem: str
) -> None:
    with pytest.raises(FieldError, match=problem):
        build(write("topology.txt", NS3.replace(old, new, 1)))
