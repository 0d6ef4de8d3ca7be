# SPDX-License-Identifier: Apache-2.0
"""What a run on the simulator says besides the completion times of its flows."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.runs.bundle import read_flows
from sluice.runs.files import scenario_with
from sluice.runs.simulator_run import run_on_simulator

LEAF_SPINE = {
    "topology": "leaf-spine",
    "leaves": 3,
    "spines": 4,
    "hosts_per_leaf": 2,
    "host_rate": "10Gbit",
    "core_rate": "10Gbit",
    "link_delay": "1us",
}
SWITCH = {"topology": "single", "hosts": 8, "host_rate": "10Gbit"}


def document(workload: dict[str, Any], fabric: dict[str, Any] = SWITCH, **tables: Any) -> dict[str, Any]:
    return {
        "name": "measured",
        "grace": "1s",
        "fabric": fabric,
        "scheme": {"name": "dctcp", "buffer": "30KB"},
        "transport": {"connections": "persistent", "rto_min": "1ms"},
        "workload": workload,
        **tables,
    }


def run(out: Path, workload: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """Run a scenario and return its summary."""
    return run_on_simulator(scenario_with(document(workload, **tables)), out)


def test_losses__each_flow_has_its_timeouts_and_each_port_its_drops(tmp_path: Path) -> None:
    """Seven hosts answer one at once: its port and no other has too small a buffer."""
    flows = [{"from": f"h{i}", "to": "h1", "bytes": "20KB"} for i in range(2, 9)]
    lone = {"from": "h1", "to": "h2", "bytes": "10KB", "start": "1s"}
    summary = run(tmp_path, {"flow": [*flows, lone]})
    meta = json.loads((tmp_path / "meta.json").read_text())
    rows = read_flows(tmp_path)
    timeouts = [row["timeouts"] for row in rows]
    assert sum(timeouts) == meta["tcp"]["retransmission_timeouts"] > 0
    assert {row["timeouts"] for row in rows if row["src"] == "h1"} == {0}
    assert summary["drops"] == [{"port": "s1:1", "packets": meta["packets_dropped"]}]


def test_losses__the_summary_has_the_ports_with_the_most_drops(tmp_path: Path) -> None:
    """Both directions of every host's link lose packets, among 120 ports."""
    fabric = {**SWITCH, "hosts": 60}
    faults = [{"link": f"h{i}-s1", "loss": 0.01 * i} for i in range(1, 31)]
    flows = [{"from": f"h{i}", "to": f"h{i + 30}", "bytes": "300KB"} for i in range(1, 31)]
    summary = run(tmp_path, {"flow": flows}, fabric=fabric, simulator={"fault": faults})
    packets = [drop["packets"] for drop in summary["drops"]]
    assert len(packets) == 20
    assert packets == sorted(packets, reverse=True)
    assert {"s1:30", "h30"} <= {drop["port"] for drop in summary["drops"]}


SPACED = [
    {"from": f"h{1 + i % 6}", "to": f"h{1 + (i + 1 + i // 6) % 6}", "bytes": "100KB", "start": f"{i}ms"}
    for i in range(30)
]
"""Flows that never meet: a flow lasts for less than half a millisecond."""


@pytest.mark.parametrize("changes", [{}, {"seed": 2}, {"simulator": {"threads": 2}}])
def test_paths__a_flow_passes_the_ports_that_it_names_and_no_others(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    simulator = {**changes.get("simulator", {}), "sample_ports": "1ms"}
    run(tmp_path, {"flow": SPACED}, fabric=LEAF_SPINE, **{**changes, "simulator": simulator})
    before: dict[str, int] = {}
    busy: dict[float, set[str]] = {}
    for row in pq.read_table(tmp_path / "queues.parquet").to_pylist():
        sent = row["sent_bytes"] - before.get(row["port"], 0)
        before[row["port"]] = row["sent_bytes"]
        if sent > 100_000:
            busy.setdefault(round(row["at_s"] * 1000), set()).add(row["port"])
    paths = {round(row["started_at"] * 1000) + 1: row["path"] for row in read_flows(tmp_path)}
    assert {at: set(path) for at, path in paths.items() if at in busy} == busy
    assert {len(path) for path in paths.values()} == {1, 3}
    assert len(busy) == len(SPACED) - 1, "after the last flow there is no sample"
    spines = {path[1].partition(":")[0] for path in paths.values() if len(path) == 3}
    assert len(spines) == 4, "flows are spread"


def test_paths__a_rerouted_flow_has_its_last_one(tmp_path: Path) -> None:
    """Of the four spines, s4 to s7, three lose their link to the receiver's leaf."""
    faults = [{"link": f"s2-s{i}", "reroute": "1ms", "start": "1ms"} for i in (4, 5, 6)]
    flows = [{"from": "h1", "to": "h3", "bytes": "2MB", "start": f"{i}ms"} for i in range(4)]
    run(tmp_path, {"flow": flows}, fabric=LEAF_SPINE, simulator={"fault": faults})
    assert {tuple(row["path"]) for row in read_flows(tmp_path)} == {("s1:6", "s7:2", "s2:1")}


def test_paths__there_is_none_where_packets_take_turns(tmp_path: Path) -> None:
    run(tmp_path, {"flow": SPACED}, fabric=LEAF_SPINE, simulator={"multipath": "per-packet"})
    assert {row["path"] for row in read_flows(tmp_path)} == {None}
