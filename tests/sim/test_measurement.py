# SPDX-License-Identifier: Apache-2.0
"""What a run on the simulator says besides the completion times of its flows."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.workload.scenario import scheduled_batches
from sluice.report.runs import find_runs
from sluice.runs.bundle import read_flows
from sluice.runs.files import check_on, scenario_with
from sluice.runs.progress import flow_count, predicted_work
from sluice.runs.simulator_run import run_on_simulator
from sluice.runs.stack import SimulatedStack, Stack

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


RANDOM = {"sizes": "web-search", "load": 0.6, "flows": 300, "scale": 0.1}


def test_measure_from__earlier_flows_run_and_do_not_count(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", RANDOM)
    rows = read_flows(tmp_path / "whole")
    middle_s = sorted(row["started_at"] for row in rows)[150]
    part = run(tmp_path / "part", RANDOM, simulator={"measure_from": f"{round(middle_s * 1e9)}ns"})
    measured = read_flows(tmp_path / "part")
    assert [{**row, "source": "scheduled"} for row in measured] == rows
    counted = [row for row in measured if row["source"] == "scheduled"]
    assert 149 <= len(counted) <= 150
    assert {row["source"] for row in measured if row not in counted} == {"warm-up"}
    assert part["fct_us"]["all"]["n"] == len(counted)
    assert part["slowdown"]["all"]["mean"] == pytest.approx(np.mean([row["slowdown"] for row in counted]))
    assert part["retransmissions"] == sum(row["retransmissions"] for row in counted)
    assert part["drops"] == whole["drops"]
    (compared,) = find_runs([tmp_path / "part"])
    assert len(compared.flows().fct_us) == len(compared.scored()) == len(counted)


def test_measure_from__a_label_that_began_before_does_not_count(tmp_path: Path) -> None:
    starts = {"a/1": ["0ms", "2ms"], "a/2": ["1ms", "2ms"], "a/3": ["2ms"]}
    flows = [
        {"from": f"h{i}", "to": "h8", "bytes": "1KB", "start": start, "label": label}
        for label, of in starts.items()
        for i, start in enumerate(of, start=1)
    ]
    summary = run(tmp_path, {"flow": flows}, simulator={"measure_from": "1ms"})
    assert summary["groups"]["a"]["n"] == 2
    assert len(pq.read_table(tmp_path / "groups.parquet")) == 3


def test_until__random_flows_that_would_start_later_are_left_out(tmp_path: Path) -> None:
    run(tmp_path / "whole", RANDOM)
    rows = sorted(read_flows(tmp_path / "whole"), key=lambda row: row["started_at"])
    until_s = round(rows[200]["started_at"], 9) + 1e-9
    summary = run(tmp_path / "part", RANDOM, simulator={"until": f"{round(until_s * 1e9)}ns"})
    part = sorted(read_flows(tmp_path / "part"), key=lambda row: row["started_at"])
    assert [row["id"] for row in part] == [row["id"] for row in rows[:201]]
    ended = [row["started_at"] + row["fct_us"] / 1e6 <= until_s for row in rows[:201]]
    assert [row["status"] == "finished" for row in part] == ended
    assert summary["unfinished"] == ended.count(False) > 0
    meta = json.loads((tmp_path / "part" / "meta.json").read_text())
    assert meta["simulated_s"] == pytest.approx(until_s)


@pytest.mark.parametrize("after", [{}, {"after": "first"}])
def test_until__listed_flows_that_have_not_ended_are_unfinished(
    after: dict[str, str], tmp_path: Path
) -> None:
    lone = {"from": "h1", "to": "h2", "bytes": "10KB"}
    flows = [{**lone, "label": "first"}, {**lone, "start": "2ms", **after}, {**lone, "bytes": "10MB"}]
    summary = run(tmp_path, {"flow": flows}, simulator={"until": "1ms"})
    assert summary["unfinished"] == 2
    assert [row["bytes"] for row in read_flows(tmp_path) if row["status"] == "finished"] == [10_000]


@pytest.mark.parametrize("key", ["measure_from", "until"])
def test_times__the_testbed_and_demonstrations_refuse_them(key: str, tmp_path: Path) -> None:
    scenario, _, topology = scenario_with(document(RANDOM, simulator={key: "1ms"}))
    check_on(scenario, SIMULATOR)
    message = f"simulator.{key}: is for `sluice run` and `sluice sweep` on the simulator"
    with pytest.raises(FieldError, match=message):
        check_on(scenario, TESTBED)
    for stack in (Stack, SimulatedStack):
        with pytest.raises(FieldError, match=message):
            stack.start(scenario, topology, tmp_path)


REQUESTS = {"share": 0.2, "fanin": 4, "bytes": "10KB"}


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ({**RANDOM, "incast": REQUESTS}, "incast"),
        ({**RANDOM, "incast": {**REQUESTS, "label": "query"}}, "query"),
        ({"pattern": "incast", "flows": 300, "load": 0.5, "fanin": 4, "bytes": "1KB", "label": "x"}, "x"),
    ],
)
def test_incast__each_request_has_its_completion_time(
    workload: dict[str, Any], name: str, tmp_path: Path
) -> None:
    summary = run(tmp_path, workload)
    groups = {group["label"]: group for group in pq.read_table(tmp_path / "groups.parquet").to_pylist()}
    answers: dict[float, list[float]] = {}
    for row in read_flows(tmp_path):
        if row["bytes"] == 1000:
            answers.setdefault(row["started_at"], []).append(row["fct_us"])
    took_us = [group["completion_us"] for group in sorted(groups.values(), key=lambda of: of["start_s"])]
    assert set(groups) == {f"{name}/{i + 1}" for i in range(len(groups))}
    assert all(group["flows"] == 4 for group in groups.values())
    assert took_us == pytest.approx([max(answers[start_s]) for start_s in sorted(answers)], abs=1e-3)
    assert summary["groups"][name]["mean"] == pytest.approx(np.mean(took_us))


def test_incast__the_progress_counts_its_answers(tmp_path: Path) -> None:
    """On average over seeds: of 3,000 flows here."""
    resolved = scenario_with(document({**RANDOM, "flows": 3000, "incast": REQUESTS}))
    rng = np.random.default_rng(1)
    drawn = sum(map(len, scheduled_batches(resolved.scenario, resolved.topology, rng)))
    assert flow_count(resolved.scenario) == pytest.approx(drawn, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"incast": {"share": 0.2, "bytes": "10KB"}}, "workload.incast.fanin: is missing"),
        ({"incast": {"share": 0.2, "fanin": 4}}, "workload.incast.bytes: give either"),
        ({"incast": {**REQUESTS, "fanin": 8}}, "workload.incast.fanin: must be at most 7"),
        ({"incast": {"fanin": 4, "bytes": "10KB"}}, "workload.incast.share: is missing"),
        ({"incast": {**REQUESTS, "share": 1}}, "workload.incast.share: must be"),
        (
            {"incast": REQUESTS, "load": None, "interarrival": "1ms"},
            "workload.incast: has a part of the load",
        ),
    ],
)
def test_incast__what_cannot_be_is_refused_by_its_key(changes: dict[str, Any], message: str) -> None:
    workload = {key: value for key, value in {**RANDOM, **changes}.items() if value is not None}
    with pytest.raises(FieldError, match=re.escape(message)):
        scenario_with(document(workload))


def test_until__must_be_later_than_measure_from() -> None:
    for simulator in ({"until": "2ms", "measure_from": "2ms"}, {"until": "0s"}):
        with pytest.raises(FieldError, match=r"simulator\.until: must be later than measure_from"):
            scenario_with(document(RANDOM, simulator=simulator))


def test_until__a_shorter_run_is_less_work() -> None:
    whole = predicted_work(scenario_with(document(RANDOM)), SIMULATOR)
    short = predicted_work(scenario_with(document(RANDOM, simulator={"until": "1us"})), SIMULATOR)
    assert whole is not None
    assert short is not None
    assert 0 < short < 0.01 * whole
