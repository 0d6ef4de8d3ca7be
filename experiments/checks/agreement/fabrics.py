# SPDX-License-Identifier: Apache-2.0
"""One scenario on both fabrics, the simulator with the testbed's own delay."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from experiments.checks.agreement.compare import columns_by_number
from experiments.kit.emulated import as_emulated
from sluice.runs.bundle import is_complete
from sluice.runs.fabrics import need_root
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.runs.simulator_run import run_on_simulator
from sluice.terminal import progress_bar

TINY_BYTES = 64
CROSSINGS = 6
"""Of a link before a one-packet flow on a new connection has arrived: SYN, SYN-ACK and data cross two links each."""
SAME_START_S = 0.02
"""Senders start late by scheduling, never by this much; another schedule differs by more at once."""


def idle_document() -> dict[str, Any]:
    """One tiny flow at a time on the network of paper-mix: what it takes is the round trip."""
    document = read_document(SCENARIOS / "paper-mix.toml")
    workload = {"mix": [{"bytes": f"{TINY_BYTES}B", "share": 1.0, "from": ["h3"]}], "pattern": "many-to-one"}
    idle = {**workload, "to": "h1", "interarrival": "50ms", "flows": 200}
    return {
        **document,
        "name": "idle",
        "scheme": {"name": "dctcp", "mark_at": "20pkt"},
        "workload": idle,
    }


def fitted_delay_us(out: Path) -> float:
    """The link delay with which the simulator's idle flow takes what the testbed's does, by the median."""
    _, resolved = scenario_with(idle_document())
    ours = on_simulator(resolved, out / "idle" / "simulator", 0.0)
    theirs = on_testbed(resolved, out / "idle" / "testbed", ours)
    measured, without = (float(np.nanmedian(_fct_us(bundle))) for bundle in (theirs, ours))
    return round(max(0.0, (measured - without) / CROSSINGS), 1)


def _fct_us(bundle: Path) -> Any:
    return pq.read_table(bundle / "flows.parquet", columns=["fct_us"]).column("fct_us").to_numpy()


def on_simulator(document: Mapping[str, Any], out: Path, delay_us: float) -> Path:
    """The bundle of a testbed's scenario on the simulator."""
    scenario, resolved = scenario_with(as_emulated(document, delay_us))
    if not is_complete(out, resolved):
        run_on_simulator(scenario, resolved, out)
    return out


def on_testbed(document: Mapping[str, Any], out: Path, ours: Path) -> Path:
    """The bundle of the same scenario on the testbed; run when there is none of the very flows that `ours` has."""
    scenario, resolved = scenario_with(document)
    if not (is_complete(out, resolved) and same_flows(out, ours)):
        from sluice.runs.testbed_run import run_on_testbed

        need_root()
        with progress_bar(f"{scenario.name} on the testbed") as report:
            run_on_testbed(scenario, resolved, out, report)
    valid = json.loads((out / "summary.json").read_text())["valid"]
    if not valid["ok"]:
        print(f"{out.name}: not valid: {'; '.join(valid['reasons'])}", file=sys.stderr)
    return out


def same_flows(testbed: Path, simulator: Path) -> bool:
    """Whether both ran one schedule: the same sizes at the same times of the run."""
    theirs, ours = columns_by_number(testbed), columns_by_number(simulator)
    if theirs is None or ours is None or len(theirs["bytes"]) != len(ours["bytes"]):
        return False
    late_s = np.abs(theirs["started_s"] - ours["started_s"])
    return bool((theirs["bytes"] == ours["bytes"]).all() and np.median(late_s) < SAME_START_S)
