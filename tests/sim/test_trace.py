# SPDX-License-Identifier: Apache-2.0
"""The trace: the example of the core's README, counters and windows that agree with it, and pcap files."""

import json
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from sluice import cli
from sluice.runs.files import scenario_with
from sluice.simulator import _fabric as core
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Columns, Taps
from sluice.simulator.trace import EVENTS, KINDS, ROW
from sluice.topologies import build_topology
from tests.kit.pages import DOCS
from tests.sim import kit, runs
from tests.sim.bottleneck import CORE
from tests.sim.kit import FRAME, MS, PAYLOAD, US, Link

UNIT = 10 * US
"""A tenth of a frame's time in the example of the README."""


def rows_of(net: kit.Net) -> npt.NDArray[np.void]:
    return np.frombuffer(net.fabric.take_trace(), ROW)


def times(rows: npt.NDArray[np.void], event: str) -> dict[int, int]:
    """Return flow → when that happened to its only packet."""
    some = rows[EVENTS[rows["event"]] == event]
    return dict(zip(some["flow"].tolist(), some["at_ps"].tolist(), strict=True))


def test_a_port_sends_as_the_example_of_the_readme_says() -> None:
    """A frame takes 10 units, the delay is 25, and C alone is untagged, which the port serves first."""
    frame = 10 * UNIT
    instant = Link(10**15, 0)
    down = Link(FRAME * 8 * kit.S // frame, 25 * UNIT, more={"traces": True, "traces_all": True})
    net = kit.single(5, up=instant, down=down)
    net.fabric.set_queue_of(net.towards[4], [0] + [1] * (kit.TAGS - 1))
    untagged = net.fabric.add_transport(kit.transport(tags=False))
    for source, (start, transport) in enumerate([(0, 0), (4, 0), (6, untagged), (22, 0)]):
        net.flow(source, 4, PAYLOAD, start * UNIT, transport=transport)
    net.run(70 * UNIT)
    rows = rows_of(net)
    rows = rows[rows["port"] == net.towards[4]]
    lag = kit.serialisation(FRAME, instant.bps)
    a, b, c, d = range(4)
    expected = {
        "queued": {a: 0, b: 4, c: 6, d: 22},
        "sent": {a: 0, c: 10, b: 20, d: 30},
        "received": {a: 35, c: 45, b: 55, d: 65},
    }
    for event, at in expected.items():
        assert times(rows, event) == {flow: units * UNIT + lag for flow, units in at.items()}
    drawn = [line for line in (CORE / "README.md").read_text().splitlines() if " event: " in line[:20]]
    assert [int(line.split()[0]) for line in drawn] == sorted(expected["received"].values())
    assert set(KINDS[rows["packet"]]) == {"data"}


SCENARIO: dict[str, Any] = {
    "name": "traced",
    "seed": 2,
    "fabric": {"topology": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4, "host_rate": "1Gbit"},
    "scheme": {"name": "pias"},
    "workload": {"sizes": "web-search", "scale": 0.1, "pattern": "all-to-all", "load": 0.4, "flows": 150},
    "simulator": {},
}
SCENARIO["fabric"] |= {"core_rate": "1Gbit", "buffer": "40KB", "host_delay": "20us"}


def traced(document: dict[str, Any], **simulator: Any) -> tuple[Simulation, Columns, Columns]:
    """Return the run, its flows and its trace."""
    scenario, *_ = scenario_with(document | {"simulator": simulator})
    flows: list[Columns] = []
    trace: list[Columns] = []
    simulation = Simulation(scenario, build_topology(scenario), Taps(flows.append, trace=trace.append))
    simulation.run()
    return simulation, joined(flows), joined(trace)


def joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("scheme", ["pias", "sluice", "pfabric", "homa"])
def test_a_trace_has_what_the_ports_count_and_changes_nothing(scheme: str, threads: int | None) -> None:
    document = SCENARIO | {"scheme": {"name": scheme}}
    settings = {"threads": threads} if threads else {}
    plain = runs.run(document | {"simulator": settings})
    simulation, flows, trace = traced(document, traced_ports=["*"], traced_flows=[3], **settings)
    order = np.argsort(flows["number"])
    for name, column in plain.flows.items():
        np.testing.assert_array_equal(column, flows[name][order], name)
    assert (np.diff(trace["at_s"]) >= 0).all()
    names = [
        *(host.name for host in simulation.topology.hosts),
        *(port.id for port in simulation.topology.ports),
    ]
    counted = Counter(zip(trace["port"].tolist(), trace["event"].tolist(), strict=True))
    statistics = simulation.fabric.port_statistics()
    for name, (sent, _, marked, dropped, *_) in zip(names, statistics.tolist(), strict=True):
        if ":" in name:
            assert [counted[name, event] for event in ("sent", "marked", "dropped")] == [
                sent,
                marked,
                dropped,
            ]
    assert scheme == "homa" or statistics[:, 3].sum() > 0
    of_hosts = np.char.startswith(trace["port"].astype(str), "h")
    assert set(trace["flow"][of_hosts].tolist()) == {3}, "hosts' own ports trace the chosen flow alone"


def test_a_cut_leads_to_the_window_that_the_sender_then_has() -> None:
    """DCTCP cuts its window by alpha / 2, here at once. The trace says when, and a second run looks there."""

    def network() -> kit.Net:
        settings = kit.transport(control=core.Control.dctcp, echo=core.Echo.exact, cuts_at_once=True)
        net = kit.single(2, settings, down=Link(kit.GBIT, US, more={"mark_bytes": 20 * FRAME}))
        net.fabric.trace([0])
        net.flow(0, 1, 3000 * PAYLOAD)
        return net

    net = network()
    net.run(5 * MS)
    rows = rows_of(net)
    [first, *_] = rows[EVENTS[rows["event"]] == "mark-cut"]
    again = network()
    again.run(int(first["at_ps"]) - 1)
    [before] = again.fabric.senders()["cwnd"]
    again.run(int(first["at_ps"]))
    senders = again.fabric.senders()
    cut = (
        int(before) * int(senders["penalty_q20"][0]) + 2**20
    ) >> 21  # sl_dctcp_cwnd of dataplane/laws/dctcp.h
    assert senders["cwnd"][0] == first["cwnd"] == before - cut
    assert cut > 10
    assert {"window", "mark-cut"} == set(EVENTS[rows["event"]].tolist()), "no port traces flows here"


INCAST = """
name = "incast"
[fabric]
topology = "single"
hosts = 3
host_rate = "1Gbit"
[scheme]
name = "dctcp"
mark_at = "20pkt"
[transport]
connections = "new"
[workload]
flow = [{ from = "h1", to = "h3", bytes = "146000B" }, { from = "h2", to = "h3", bytes = "146000B" }]
"""


def test_pcap__what_a_port_sends_for_tcpdump(tmp_path: Path) -> None:
    file, out = tmp_path / "incast.toml", tmp_path / "out"
    file.write_text(INCAST)
    parser, execute = cli.command("run")
    words = [str(file), "--out", str(out), "--pcap", "s1:3", "--pcap", "s1:1"]
    assert execute(parser.parse_args(words)) == 0
    trace = pq.read_table(
        out / "trace.parquet", filters=[("port", "=", "s1:3"), ("event", "=", "sent")]
    ).to_pylist()
    data = (out / "s1-3.pcap").read_bytes()
    assert struct.unpack("<IHHiIII", data[:24]) == (0xA1B23C4D, 2, 4, 0, 0, 66, 1)
    records = [data[begin : begin + 82] for begin in range(24, len(data), 82)]
    assert len(records) == len(trace)
    delivered = {1: 0, 2: 0}
    for record, row in zip(records, trace, strict=True):
        seconds, ns, captured, length = struct.unpack("<4I", record[:16])
        assert (seconds + ns / 1e9, captured, length) == (
            pytest.approx(row["at_s"], abs=1e-9),
            66,
            row["frame_bytes"],
        )
        total, source, sink = struct.unpack(">H8x2I", record[32:50])
        source &= 0xFF
        assert (sink & 0xFF, total) == (3, length - 14)
        assert source == int(row["flow"][-1]) + 1
        assert record[31] == row["tag"] * 4 + (3 if row["ce"] else 2 * row["ect"])
        sequence, flags = struct.unpack(">I4xxB", record[54:64])
        if row["packet"] == "data":
            assert sequence == 1 + delivered[source]
            delivered[source] += length - 66
        else:
            assert (row["packet"], sequence, flags) == ("syn", 0, 0x02)
    assert delivered == {1: 146_000, 2: 146_000}
    assert any(row["ce"] for row in trace)
    if shutil.which("tcpdump"):
        for name in ("s1-3", "s1-1"):
            command = ["tcpdump", "-nn", "-v", "-r", str(out / f"{name}.pcap")]
            shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            assert "bad cksum" not in shown
            assert "bad-len" not in shown
        assert "10.0.0.3.5001 > 10.0.0.1.10000: Flags [.E]" in shown, "ACKs echo marks"
        assert "ack 146001" in shown


def test_results__the_page_has_the_columns_of_the_file(tmp_path: Path) -> None:
    file, out = tmp_path / "incast.toml", tmp_path / "out"
    file.write_text(INCAST + "[simulator]\ntraced_flows = [1]\n")
    parser, execute = cli.command("run")
    assert execute(parser.parse_args([str(file), "--out", str(out)])) == 0
    schema = pq.read_schema(out / "trace.parquet")
    page = (
        (DOCS / "reference" / "results.md")
        .read_text()
        .partition("## `trace.parquet`")[2]
        .partition("\n## ")[0]
    )
    table = [line.split(" | ")[:2] for line in page.splitlines() if line.startswith("| `")]
    assert [(name.strip("| `"), kind) for name, kind in table] == [(f.name, str(f.type)) for f in schema]
    assert not (out / "s1-3.pcap").exists()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["unfinished"] == 0
