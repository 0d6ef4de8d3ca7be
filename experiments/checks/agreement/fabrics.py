# SPDX-License-Identifier: Apache-2.0
"""One run on both fabrics, the simulator with the testbed's own delay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.attempts import run_each
from experiments.kit.emulated import as_emulated
from experiments.kit.flows import read_flows, says_source
from experiments.kit.points import NamedPoint
from experiments.kit.runs import Run, read_run
from policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.sweep.points import Point
from sluice.sweep.run import is_finished

TINY_BYTES = 64
CROSSINGS = 6
"""Of a link, for a one-packet flow on a new connection: SYN, SYN-ACK and data cross two each."""
SAME_START_S = 0.02
"""Senders start late, but never by this much; another schedule differs by more at once."""


def idle_document() -> dict[str, Any]:
    """One tiny flow at a time on the network of paper-mix: its FCT is the round trip."""
    document = read_document(SCENARIOS / "paper-mix.toml")
    workload = {"mix": [{"bytes": f"{TINY_BYTES}B", "share": 1.0, "from": ["h3"]}], "pattern": "many-to-one"}
    idle = {**workload, "to": "h1", "interarrival": "50ms", "flows": 200}
    return {
        **document,
        "name": "idle",
        "scheme": {"name": "dctcp", "mark_at": "20pkt"},
        "workload": idle,
    }


def fitted_delay_us(out: Path, attempts: int) -> float:
    """The link delay with which an idle flow takes as long on the simulator as on the testbed."""
    scenario, resolved = scenario_with(idle_document())
    point = NamedPoint("idle", None, scenario.seed, resolved, "simulator")
    ours = on_simulator(point, out / "idle", 0.0)
    theirs = on_testbed(replace(point, folder="testbed"), out / "idle", ours, attempts)
    measured, without = (float(np.nanmedian(run.flows().fct_us)) for run in (theirs, ours))
    return round(max(0.0, (measured - without) / CROSSINGS), 1)


def on_simulator(point: Point, folder: Path, delay_us: float) -> Run:
    """A testbed's run on the simulator."""
    emulated = replace(point, document=as_emulated(point.document, delay_us))
    run_each([emulated], folder, SIMULATOR, 1)
    return read_run(emulated, folder)


def on_testbed(point: Point, folder: Path, ours: Run, attempts: int) -> Run:
    """The same run on the testbed; made when none is there with the very flows of `ours`."""
    bundle = folder / point.name
    if is_finished(folder, point) and not same_flows(bundle, ours.bundle):
        (bundle / "summary.json").unlink()
    run_each([point], folder, TESTBED, attempts)
    return read_run(point, folder)


def same_flows(testbed: Path, simulator: Path) -> bool:
    """Whether both ran one schedule: the same sizes at the same times of the run."""
    if not (says_source(testbed) and says_source(simulator)):
        return False
    theirs, ours = (read_flows(bundle).by_number for bundle in (testbed, simulator))
    if len(theirs) != len(ours):
        return False
    late_s = np.abs(theirs.started_s - ours.started_s)
    return bool((theirs.bytes == ours.bytes).all() and np.median(late_s) < SAME_START_S)
