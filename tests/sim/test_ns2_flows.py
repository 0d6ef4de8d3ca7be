# SPDX-License-Identifier: Apache-2.0
"""Single flows as in ns-2: the first ones of the run that experiments/checks/ns2 compares by flow size."""

from __future__ import annotations

import csv
from typing import Any

from experiments.checks.ns2 import flows as scripts
from experiments.checks.ns2 import run
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import load_cdf
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.kit.finished_runs import given

STARTED = 400
"""Flows that start in the first 5 ms. Later ones cannot change the short ones among the first hundred."""
CLOSE_US = 0.1


def test_ns2__of_the_first_hundred_flows_three_of_four_take_the_same_time() -> None:
    """A flow differs once it meets a long one: the queues of both simulators drift apart by a packet."""
    document = run._point(run.AS_NS2, run.NS2, given(run.EXPERIMENT, "--flows", str(STARTED))).document
    scenario = scenario_from_document(document, load_cdf)
    took_us: dict[tuple[int, int, int], float] = {}

    def note(columns: dict[str, Any]) -> None:
        names = ("start_s", "src", "dst", "bytes", "fct_ps")
        for start_s, source, sink, size_bytes, fct_ps in zip(*(columns[n] for n in names), strict=True):
            if start_s >= scripts.FLOWS_AT_S:
                took_us[int(source), int(sink), int(size_bytes) // scripts.PACKET_BYTES] = fct_ps / 1e6

    Simulation(scenario, build_topology(scenario), Taps(flows=note)).run()
    with (run.HERE / "first_flows.csv").open() as file:
        theirs = {
            (int(row["source"]), int(row["sink"]), int(row["packets"])): float(row["fct_us"])
            for row in csv.DictReader(file)
        }
    assert len(theirs) == 100
    same = [key for key, fct_us in theirs.items() if abs(took_us[key] - fct_us) <= CLOSE_US]
    assert len(same) >= 70
