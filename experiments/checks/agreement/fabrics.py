# SPDX-License-Identifier: Apache-2.0
"""One run on both fabrics. The simulator gets the delay of the testbed's software."""

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
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.sweep.points import Point, is_finished

TINY_BYTES = 64
CROSSINGS = 6
"""How often a one-packet flow on a new connection crosses a link: SYN, SYN-ACK and data cross two
links each."""
SAME_START_S = 0.02
"""Greatest difference of two starts in one schedule: senders start late, but less than this.
Another schedule differs by more from its first flow on."""


def idle_document() -> dict[str, Any]:
    """Return a scenario with one tiny flow at a time on the network of paper-mix. Its FCT is the round trip."""
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
    """Return the link delay with which an idle flow takes as long on the simulator as on the testbed."""
    scenario, resolved, _ = scenario_with(idle_document())
    point = NamedPoint("idle", None, scenario.seed, resolved, "simulator")
    ours = on_simulator(point, out / "idle", 0.0)
    theirs = on_testbed(replace(point, folder="testbed"), out / "idle", ours, attempts)
    measured, without = (float(np.nanmedian(run.flows().fct_us)) for run in (theirs, ours))
    return round(max(0.0, (measured - without) / CROSSINGS), 1)


def on_simulator(point: Point, folder: Path, delay_us: float) -> Run:
    """Run a scenario of the testbed on the simulator."""
    emulated = replace(point, document=as_emulated(point.document, delay_us))
    run_each([emulated], folder, SIMULATOR, 1)
    return read_run(emulated, folder)


def on_testbed(point: Point, folder: Path, ours: Run, attempts: int) -> Run:
    """Return the same run on the testbed. It is made unless a bundle with exactly the flows of
    `ours` exists."""
    bundle = folder / point.name
    if is_finished(folder, point) and not same_flows(bundle, ours.bundle):
        (bundle / "summary.json").unlink()
    run_each([point], folder, TESTBED, attempts)
    return read_run(point, folder)


def same_flows(testbed: Path, simulator: Path) -> bool:
    """Whether both bundles have the same schedule: the same sizes at the same times of the run."""
    if not (says_source(testbed) and says_source(simulator)):
        return False
    theirs, ours = (read_flows(bundle).by_number for bundle in (testbed, simulator))
    if len(theirs) != len(ours):
        return False
    late_s = np.abs(theirs.started_s - ours.started_s)
    return bool((theirs.bytes == ours.bytes).all() and np.median(late_s) < SAME_START_S)
