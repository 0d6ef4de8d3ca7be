# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

from sluice.policy.wire.records import FlowRecord
from sluice.runs.bundle import machine_meta, read_flows, read_ports, write_bundle
from sluice.runs.files import scenario_from_file
from sluice.store.observed import PortSample, ThresholdChange

FLOW = FlowRecord(
    "r/1", "h1", "h2", 10_000, "small", 1.0, 2000.0, 1000.0, None, None, 3, "cubic", "tcp", "finished"
)
LOST = FlowRecord(
    "r/2", "h1", "h2", 10_000, "small", 2.0, None, 1000.0, 5.0, False, 0, "cubic", "tcp", "unfinished"
)


def test_write_bundle__holds_what_the_run_produced(tmp_path: Path) -> None:
    summary = write_bundle(
        tmp_path,
        scenario={"name": "x"},
        meta=machine_meta(seed=4),
        flows=[FLOW, LOST],
        thresholds=[ThresholdChange(2.0, "s1:1", 1, (10_000,), 7)],
        samples=[PortSample(1.0, "s1:1", (5, 6), (1, 1))],
        validity_reasons=["the CPU was saturated"],
    )
    assert summary["valid"] == {"ok": False, "reasons": ["the CPU was saturated"], "remarks": []}
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert json.loads((tmp_path / "meta.json").read_text())["seed"] == 4
    rows = read_flows(tmp_path)
    assert [row["slowdown"] for row in rows] == [2.0, None]
    assert rows[1]["status"] == "unfinished"
    assert read_ports(tmp_path, "thresholds")[0]["thresholds_bytes"] == [10_000]
    assert read_ports(tmp_path, "queues")[0]["queue_bytes"] == [5, 6]


def test_demo_scenario__starts_far_from_where_it_should_end() -> None:
    scenario, *_ = scenario_from_file(Path("demo"))
    assert scenario.policy.thresholds[0] == 1_000_000
