# SPDX-License-Identifier: Apache-2.0
"""Scenario, distribution and flow files, also those of other simulators: flow lists, sizes and a topology."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as pacsv
from pyarrow import parquet

from sluice import topologies
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.workload.listed_flows import ExplicitFlow, ExplicitWorkload
from sluice.policy.workload.sizes import parse_cdf
from sluice.runs.files import (
    SCENARIOS,
    load_cdf,
    load_trace,
    read_document,
    say_once,
    scenario_from_file,
    scenario_with,
)


@pytest.mark.parametrize("name", sorted(path.stem for path in SCENARIOS.glob("*.toml")))
def test_scenario_from_file__scenarios_that_come_along_are_valid_and_have_a_name(name: str) -> None:
    scenario, *_ = scenario_from_file(Path(name))
    assert scenario.name == name


GOOD = """
name = "mine"
[fabric]
topology = "single"
hosts = 4
host_rate = "100Mbit"
[scheme]
name = "dctcp"
[workload]
sizes = "web-search"
pattern = "many-to-one"
to = "h1"
load = 0.8
flows = 10
"""
GOOD_RANDOM = GOOD[GOOD.index("sizes =") : GOOD.index("flows")]
BAD_CDF = "1 0\n5 0.9\n9 0.5\n10 1\n"
BAD = {
    "unknown key": (
        "load = 0.8",
        "load = 0.8\nlaod = 0.8",
        "workload.laod",
        "did you mean load?",
    ),
    "unit missing": ('"100Mbit"', '"100"', "fabric.host_rate", 'for example "10Gbit"'),
    "CDF not monotone": (
        '"web-search"',
        '"{folder}/bad.cdf"',
        "workload.sizes",
        "bad.cdf: line 3: sizes and",
    ),
    "no such table": ('"web-search"', '"websearch"', "workload.sizes", "the known names are aditya"),
    "no such CDF": ('"web-search"', '"{folder}/none.cdf"', "workload.sizes", "give the path"),
    "no such trace": (GOOD_RANDOM, 'trace = "none.txt"\n', "workload.trace", "give a table"),
    "no such host": ('"h1"', '"h77"', "workload.to", "hosts are h1"),
}
"""Name → (text to replace in a good scenario, its replacement, the key and the remedy in the message)."""


@pytest.mark.parametrize("case", BAD)
def test_bad_scenarios__one_line_with_file_key_and_remedy(case: str, tmp_path: Path) -> None:
    old, new, key, remedy = BAD[case]
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    scenario_from_file(path)
    (tmp_path / "bad.cdf").write_text(BAD_CDF)
    assert old in GOOD
    path.write_text(GOOD.replace(old, new.replace("{folder}", str(tmp_path)), 1))
    with pytest.raises(SluiceError) as caught:
        scenario_from_file(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: {key}: ")
    assert remedy in message


def test_scenario_with__a_named_scheme_replaces_the_table() -> None:
    scenario, resolved, _ = scenario_with(read_document(Path("paper-mix")), scheme={"name": "tcp"}, seed=9)
    assert scenario.policy.scheme == "tcp"
    assert scenario.seed == 9
    assert resolved["scheme"] == {"name": "tcp"}
    assert resolved["workload"]["flows"] == 1200


@pytest.mark.parametrize("read", [load_cdf, load_trace])
def test_a_name_that_is_too_long_is_no_file(read: Callable[[str], object]) -> None:
    with pytest.raises(FieldError, match="there is no file"):
        read("a" * 300 + ".cdf")
    with pytest.raises(SluiceError, match="File name too long"):
        read_document(Path("a" * 300))


SCENARIO = """
name = "mine"
fabric = {{ topology = "single", hosts = 3 }}
scheme = {{ name = "dctcp" }}
[workload]
trace = "{file}"
"""


def flows(folder: Path, file: Path, more: str = "") -> tuple[ExplicitFlow, ...]:
    (folder / "mine.toml").write_text(SCENARIO.format(file=file) + more)
    workload = scenario_from_file(folder / "mine.toml")[0].workload
    assert isinstance(workload, ExplicitWorkload)
    return workload.flows


def csv(folder: Path, text: str | bytes) -> Path:
    file = folder / "flows.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_csv_and_parquet_hold_the_same_flows(tmp_path: Path) -> None:
    text = "\ufefftime, src ,dst,bytes,deadline\n# a comment\n0s,h1,h3,20KB,5ms\n\n 120us,h2,h3,1MB,\n"
    expected = (
        ExplicitFlow("h1", "h3", 0.0, 20_000, deadline_us=5000.0),
        ExplicitFlow("h2", "h3", 0.00012, 1_000_000),
    )
    assert flows(tmp_path, csv(tmp_path, text)) == expected
    columns = {"src": ["h1", "h2"], "dst": ["h3", "h3"], "time_us": [0.0, 120.0]}
    columns |= {"bytes": [20_000, 1_000_000], "deadline_us": [5000, None]}
    parquet.write_table(pa.table(columns), tmp_path / "flows.parquet")
    assert flows(tmp_path, tmp_path / "flows.parquet") == expected
    assert len(flows(tmp_path, tmp_path / "flows.parquet", "flows = 1")) == 1


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n1,h1,h3,1KB\n", "", r"flows.csv: line 3: time: .*not a quantity"),
        ("time,src,dst,bytes\n0s,h1,h3\n", "", r"flows.csv: line 2: has 3 values, but there are 4 columns"),
        (
            "time,src,dst,bytes\n0s,h1,h9,1KB\n",
            "",
            r"workload.trace: .*flows.csv, line 2: 'h9' is not a host",
        ),
        (b"time,src,dst,bytes\n0s,h1,\xff,1KB\n", "", r"workload.trace: .*flows.csv"),
        (b"time,src,dst,bytes\n0s,h1,\0,1KB\n", "", r"workload.trace: .*flows.csv: line 2: "),
        ("time,src,dst,bytes\n", "", "has no flow"),
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n", 'to = "h1"', r"workload.to: is not a key here"),
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n", "flows = 2", r"workload.flows: must be at most 1"),
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n", "[deadlines]\nshare = 0.5", r"deadlines: is for random flows"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, text: str | bytes, more: str, message: str) -> None:
    with pytest.raises(SluiceError, match=message):
        flows(tmp_path, csv(tmp_path, text), more)


def test_what_is_no_table_is_answered(tmp_path: Path) -> None:
    (tmp_path / "flows.parquet").write_text("no parquet")
    with pytest.raises(SluiceError, match=r"workload.trace: cannot read .*flows.parquet"):
        load_trace(str(tmp_path / "flows.parquet"))
    with pytest.raises(SluiceError, match=r"there is no file .*none.csv"):
        load_trace(str(tmp_path / "none.csv"))


# ── Files as other simulators have them ────────────────────────────────────────────────────────


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    say_once.cache_clear()

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def listed(path: Path) -> list[tuple[float, str, str, int | None]]:
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
    "addresses.csv": (
        "time_s,src,dst,bytes\n0,10.0.0.10,10.0.0.3,20000\n0.001,10.0.0.9,fe80::1,1000000\n",
        "hosts are the 4 addresses in their order: 10.0.0.3 is h1",
        [(0, "h3", "h1", 20_000), (0.001, "h2", "h4", 1_000_000)],
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
    assert listed(path) == expected
    assert listed(path) == expected
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == bool(said), "once"
    assert not said or lines[0].startswith(f"{path}: ")
    assert not said or lines[0].endswith(said)


@pytest.mark.parametrize("name", ["epoch.csv", "extra.csv", "tiny.csv", "numbers.csv", "addresses.csv"])
def test_a_table_in_parquet_is_understood_as_its_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text, said, expected = LISTS[name]
    path = tmp_path / "flows.parquet"
    parquet.write_table(pacsv.read_csv(BytesIO(text.encode())), path)
    assert listed(path) == expected
    assert capsys.readouterr().err.rstrip() == (f"{path}: {said}" if said else "")


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
    ("x.txt", "5.0 8731 2\n48.0 4774 3\n", r"is no list of flows: give a table of flows"),
    ("t.cm", f"Nodes 2\n0->1 start {'9' * 400} size 5\n", r"line 2: .* is no flow of a list as htsim"),
    ("homa.txt", "0 2 900 nan\n", r"line 1: .* is no flow of a list as Homa"),
]


@pytest.mark.parametrize(("name", "text", "problem"), WRONG)
def test_what_is_no_list_is_named_with_its_line(write: Write, name: str, text: str, problem: str) -> None:
    with pytest.raises(FieldError, match=problem):
        listed(write(name, text))


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
