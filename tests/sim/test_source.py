# SPDX-License-Identifier: Apache-2.0
"""The flows of a demonstration: the scenario's schedule, cut by time, without end."""

from __future__ import annotations

import numpy as np

from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario, scheduled_batches
from sluice.runs.files import scenario_with
from sluice.simulator.flows import ROUND_S, FlowSource
from sluice.topologies import build_topology

FABRIC = {"topology": "single", "hosts": 4, "host_rate": "1Gbit"}
RANDOM = {"sizes": "web-search-bytes", "pattern": "all-to-all", "load": 0.5, "flows": 100_000}
LISTED = {
    "flow": [
        {"from": "h2", "to": "h1", "bytes": "10KB", "start": "1s"},
        {"from": "h3", "to": "h1", "start": "2s", "until": "3s"},
    ]
}


def scenario(workload: object) -> Scenario:
    document = {"name": "source", "fabric": FABRIC, "scheme": {"name": "pias"}, "workload": workload}
    return scenario_with(document)[0]


def handed_out(source: FlowSource, *ends_s: float) -> list[FlowBatch]:
    return [batch for end_s in ends_s for batch in source.before(end_s)]


def test_before__in_pieces_the_flows_are_those_of_the_schedule() -> None:
    made = scenario(RANDOM)
    topology = build_topology(made)
    found = handed_out(FlowSource(made, topology), *np.arange(0.01, 20, 0.01))
    whole = list(scheduled_batches(made, topology, np.random.default_rng(made.seed), 19.99))
    for column in ("start_s", "src", "dst", "bytes"):
        expected = np.concatenate([getattr(batch, column) for batch in whole])
        assert (np.concatenate([getattr(batch, column) for batch in found]) == expected).all()
    numbers = np.concatenate([np.arange(batch.first, batch.first + len(batch)) for batch in found])
    assert (numbers == np.arange(len(numbers))).all()


def test_before__hands_out_what_starts_before_that_time_and_nothing_twice() -> None:
    made = scenario(LISTED)
    source = FlowSource(made, build_topology(made))
    assert [batch.start_s.tolist() for batch in handed_out(source, 0.5, 1.0)] == []
    assert [batch.start_s.tolist() for batch in handed_out(source, 1.5, 1.6)] == [[1.0]]


def test_before__the_schedule_begins_again_each_round() -> None:
    made = scenario(LISTED)
    flows = handed_out(FlowSource(made, build_topology(made)), 2 * ROUND_S + 1.5)
    starts_s = np.concatenate([batch.start_s for batch in flows]).tolist()
    assert starts_s == [1.0, 2.0, ROUND_S + 1, ROUND_S + 2, 2 * ROUND_S + 1]
    assert flows[1].until_s[1] == ROUND_S + 3
    assert [batch.first for batch in flows] == [0, 2, 4]
