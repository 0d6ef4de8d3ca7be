# SPDX-License-Identifier: Apache-2.0
"""Flows that start after others, and collectives made of them: times in closed form, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sluice.policy.errors import FieldError
from sluice.policy.units import PS_PER_S
from sluice.policy.workload.scenario import scheduled_batches
from sluice.runs.files import scenario_with
from sluice.runs.simulator_run import run_on_simulator
from sluice.simulator.run import Simulation
from sluice.simulator.taps import OUTCOMES, Columns, Taps
from sluice.topologies import build_topology

SIZE_BYTES = 1_000_000
LONE = {"from": "h1", "to": "h2", "bytes": f"{SIZE_BYTES}B"}


def document(workload: dict[str, Any], hosts: int = 8, **more: Any) -> dict[str, Any]:
    """One switch, and messages that need no grants. So a flow meets no other one if no data shares its links."""
    return {
        "name": "followers",
        "fabric": {"topology": "single", "hosts": hosts, "host_rate": "10Gbit"},
        "scheme": {"name": "homa", "buffer": "100MB", "parameters": {"round_trip_bytes": 10_000_000}},
        "workload": workload,
        **more,
    }


def run(workload: dict[str, Any], **more: Any) -> Columns:
    """Return the columns of all flows, in the order of their numbers, with their labels."""
    scenario, *_ = scenario_with(document(workload, **more))
    found: list[Columns] = []
    simulation = Simulation(scenario, build_topology(scenario), Taps(found.append))
    simulation.run()
    columns = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    order = np.argsort(columns["number"])
    columns = {name: column[order] for name, column in columns.items()}
    labels = [simulation.labels.get(number, "") for number in columns["number"].tolist()]
    return {**columns, "label": np.asarray(labels)}


def start_ps(columns: Columns) -> list[int]:
    starts: list[int] = np.rint(columns["start_s"] * PS_PER_S).astype(np.int64).tolist()
    return starts


def alone_ps(size_bytes: int) -> int:
    return int(run({"flow": [{**LONE, "bytes": f"{size_bytes}B"}]})["fct_ps"][0])


def test_after__a_flow_starts_when_the_others_have_ended_and_its_time_has_passed() -> None:
    columns = run(
        {
            "flow": [
                {**LONE, "label": "first"},
                {**LONE, "from": "h3", "to": "h4", "bytes": "10KB", "start": "50us", "name": "second"},
                {**LONE, "after": ["first", "second"], "start": "7us"},
                {**LONE, "from": "h5", "to": "h6", "after": "second"},
            ]
        }
    )
    big, small = alone_ps(SIZE_BYTES), alone_ps(10_000)
    assert start_ps(columns) == [0, 50_000_000, 50_000_000 + small, big + 7_000_000]
    assert columns["fct_ps"].tolist() == [big, small, big, big]


def test_after__a_label_waits_for_all_its_flows() -> None:
    flows = [
        {**LONE, "from": f"h{i}", "to": f"h{i + 1}", "bytes": f"{i}MB", "label": "all"} for i in (1, 3, 5)
    ]
    columns = run({"flow": [*flows, {**LONE, "after": "all"}]})
    assert start_ps(columns)[3] == alone_ps(5_000_000)


def test_after__what_never_starts_is_unfinished(tmp_path: Path) -> None:
    """The first flow needs more than the grace period. Two flows wait for it, the one through the other."""
    workload = {
        "flow": [
            {**LONE, "bytes": "100MB", "label": "long"},
            {**LONE, "after": "long", "label": "next"},
            {**LONE, "after": "next"},
        ]
    }
    columns = run(workload, grace="1ms")
    assert set(columns["outcome"]) == {OUTCOMES.index("unfinished")}
    assert columns["label"].tolist() == ["long", "next", ""]
    summary = run_on_simulator(scenario_with(document(workload, grace="1ms")), tmp_path / "out")
    assert summary["unfinished"] == 3
    assert summary["groups"]["long"]["n"] == 0


def iteration_ps(kind: str, ranks: int, size_bytes: int) -> int:
    """How long an iteration takes if no flow meets another: each step takes as long as its flow alone."""
    if kind == "ring-all-reduce":
        return 2 * (ranks - 1) * alone_ps(size_bytes // ranks)
    parts, apart = [], ranks // 2
    while apart:
        parts.append(alone_ps(size_bytes * apart // ranks))
        apart //= 2
    return 2 * sum(parts)


@pytest.mark.parametrize("kind", ["ring-all-reduce", "halving-doubling"])
def test_collective__an_iteration_takes_its_steps_one_after_the_other(kind: str, tmp_path: Path) -> None:
    ranks, size_bytes, iterations = 8, 800_000, 3
    table = {"kind": kind, "ranks": ranks, "bytes": f"{size_bytes}B", "compute": "30us", "start": "1ms"}
    workload = {"collective": [{**table, "iterations": iterations, "label": "train"}]}
    summary = run_on_simulator(scenario_with(document(workload)), tmp_path / "out")
    groups = pq.read_table(tmp_path / "out" / "groups.parquet").to_pylist()
    took_us = iteration_ps(kind, ranks, size_bytes) / 1e6
    for i, group in enumerate(groups):
        assert group["label"] == f"train/{i + 1}"
        assert group["completion_us"] == pytest.approx(took_us, abs=1e-3)
        assert group["start_s"] == pytest.approx(1e-3 + (30 + i * (took_us + 30)) * 1e-6, abs=1e-9)
    assert summary["groups"]["train"]["n"] == iterations == len(groups)
    steps = 2 * (ranks - 1) if kind == "ring-all-reduce" else 6
    assert groups[0]["flows"] == ranks * steps


def test_collective__all_to_all_begins_anew_when_a_rank_has_sent_and_received_all() -> None:
    columns = run({"collective": [{"kind": "all-to-all", "ranks": 4, "bytes": "400KB", "iterations": 2}]})
    first = columns["label"] == "job1/1"
    assert first.sum() == 12
    ends = columns["start_s"] + columns["fct_ps"] / PS_PER_S
    for rank in range(4):
        own = first & ((columns["src"] == rank) | (columns["dst"] == rank))
        begins = columns["start_s"][~first & (columns["src"] == rank)]
        assert begins == pytest.approx(np.full(3, ends[own].max()), abs=1e-12)


def test_collective__stands_beside_other_jobs_and_flows() -> None:
    table = {"kind": "ring-all-reduce", "bytes": "64KB", "hosts": ["h2", "h5", "h7"]}
    columns = run(
        {"collective": [table, {**table, "label": "other"}], "flow": [{**LONE, "after": "other/1"}]}
    )
    assert set(columns["outcome"]) == {OUTCOMES.index("finished")}
    assert set(columns["label"]) == {"", "job1/1", "other/1"}
    assert set(columns["src"][columns["label"] != ""]) == {1, 4, 6}


RING = {"kind": "ring-all-reduce", "ranks": 4, "bytes": "4KB"}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (
            {"flow": [{**LONE, "after": "nobody"}]},
            r"workload.flow\[0\].after: .*nobody.* is neither the label",
        ),
        (
            {"flow": [{**LONE, "label": "a", "after": "b"}, {**LONE, "label": "b", "after": "a"}]},
            r"workload.flow: has flows that wait for each other: [ab] → [ab] → [ab]",
        ),
        (
            {"flow": [{"from": "h1", "to": "h2", "until": "1s", "after": "a"}, {**LONE, "label": "a"}]},
            r"workload.flow\[0\].until: must not stand beside after",
        ),
        ({"collective": [{**RING, "hosts": ["h1", "h2"]}]}, r"workload.collective\[0\].ranks: give either"),
        ({"collective": [{**RING, "ranks": 0}]}, r"workload.collective\[0\].ranks"),
        (
            {"collective": [{**RING, "bytes": "128B"}]},
            r"workload.collective\[0\].bytes: must be at least 64 B",
        ),
        ({"collective": [RING, {**RING, "label": "job1"}]}, r"workload.collective\[1\].label: .*earlier"),
        ({"collective": [{**RING, "kind": "halving-doubling", "ranks": 6}]}, "power of two"),
        ({"collective": [{**RING, "ranks": 9}]}, r"workload.collective: 'h9' is not a host"),
        (
            {"collective": [{**RING, "iterations": 100_000, "ranks": 8}]},
            r"collective\[0\].iterations: make 11,200,000",
        ),
        ({"collective": []}, r"workload.collective: must be a list"),
    ],
)
def test_workload__that_cannot_be_is_refused_by_its_key(workload: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        run(workload)


def test_workload__whose_starts_depend_on_others_is_for_runs_on_the_simulator() -> None:
    scenario, *_ = scenario_with(document({"collective": [RING]}))
    with pytest.raises(FieldError, match=r"workload: .*after.*--on simulator"):
        scheduled_batches(scenario, build_topology(scenario), np.random.default_rng(1))
