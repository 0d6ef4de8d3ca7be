# SPDX-License-Identifier: Apache-2.0
"""The same seed gives the same bytes of output."""

import hashlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario, scheduled_batches
from sluice.runs.files import scenario_with
from sluice.simulator.flows import ROUND_S, FlowSource
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.kit import FRAME, MS, US, Link


def digest(seed: int) -> str:
    """A digest of all outputs of a run with random marks, drops and sprayed packets."""
    red = {"mark_bytes": 5 * FRAME, "mark_max_bytes": 60 * FRAME, "count_tags": True}
    port = Link(delay_ps=US, buffer_bytes=40 * FRAME, more=red)
    net = kit.leaf_spine(
        3, 2, 4, kit.transport(rto_min_ps=MS), edge=port, core_link=port, spray=True, seed=seed
    )
    rng = np.random.default_rng(7)
    count = 300
    source = rng.integers(0, 12, count)
    net.add(
        bytes=np.ceil(10 ** rng.uniform(2, 6, count)),
        start_ps=np.sort(rng.integers(0, 3 * MS, count)),
        source=source,
        sink=(source + rng.integers(1, 12, count)) % 12,
    )
    total = hashlib.sha256()
    while not net.run(10**6 * MS, 50_000):
        columns = {**net.fabric.take_results(), **{f"sender {k}": v for k, v in net.fabric.senders().items()}}
        for column in columns.values():
            total.update(column.tobytes())
    last = [*net.fabric.take_results().values(), net.fabric.port_statistics(), net.fabric.tag_counters()]
    for column in last:
        total.update(column.tobytes())
    assert net.fabric.packets_dropped > 0
    assert net.fabric.port_statistics()[:, 2].sum() > 100
    return total.hexdigest()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    """Two runs in this process, and one in another."""
    first = digest(1)
    assert digest(1) == first
    assert digest(2) != first
    script = "import tests.sim.test_determinism as t; print(t.digest(1))"
    elsewhere = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == first


def test_how_a_run_is_cut_into_pieces_changes_nothing() -> None:
    """One call, one call for each event, or one for each microsecond."""

    def run(advance: Callable[[kit.Net], object]) -> dict[str, list[int]]:
        net = kit.single(
            4,
            down=Link(buffer_bytes=20 * FRAME, more={"mark_bytes": 3 * FRAME, "mark_max_bytes": 15 * FRAME}),
        )
        net.add(bytes=[300_000, 200_000, 5000], start_ps=[0, US, 2 * US], source=[0, 1, 2], sink=[3, 3, 3])
        advance(net)
        return {name: column.tolist() for name, column in net.results().items()}

    def in_microseconds(net: kit.Net) -> None:
        for microsecond in range(30_000):
            net.run(microsecond * US)

    def event_by_event(net: kit.Net) -> None:
        while not net.run(30 * MS, 1):
            pass

    expected = run(lambda net: net.run(30 * MS))
    assert len(expected["id"]) == 3
    assert run(event_by_event) == expected
    assert run(in_microseconds) == expected


# ── The flows of a demonstration: the scenario's schedule, cut by time, without end ────────────


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
