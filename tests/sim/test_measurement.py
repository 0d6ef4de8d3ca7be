# SPDX-License-Identifier: Apache-2.0
"""What a run on the simulator says besides the completion times of its flows."""

import json
from pathlib import Path
from typing import Any

from sluice.runs.bundle import read_flows
from sluice.runs.files import scenario_with
from sluice.runs.simulator_run import run_on_simulator

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
