# SPDX-License-Identifier: Apache-2.0
"""Finished runs: by variant, load and seed; ratios and differences are paired by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.kit.points import NamedPoint
from experiments.kit.runs import Run, Runs, read_run
from sluice.policy.figures.metrics import distribution
from sluice.policy.wire.records import FlowRecord
from sluice.runs.bundle import write_bundle
from sluice.store.observed import ThresholdChange
from tests.kit.finished_runs import run_of, runs_of

RUNS = runs_of(
    {
        ("a", 0.5, 2): 30.0,
        ("a", 0.5, 1): 10.0,
        ("b", 0.5, 1): 20.0,
        ("b", 0.5, 2): 120.0,
        ("a", 0.8, 1): 1.0,
        ("a", 0.8, 2): 3.0,
        ("b", 0.8, 1): 1.0,
        ("b", 0.8, 2): 1.0,
    }
)


def test_axes__in_order() -> None:
    assert (RUNS.variants, RUNS.loads) == (["a", "b"], [0.5, 0.8])
    assert [run.seed for run in RUNS.at("a", 0.5)] == [1, 2]
    assert len(RUNS.at("a")) == 4


def test_ratios__of_the_same_seed() -> None:
    assert RUNS.ratios("x", "a", "b", 0.5) == [0.5, 0.25]
    assert RUNS.ratio_by_load("x", "a", "b") == {0.5: 0.375, 0.8: 2.0}


def test_changes__at_every_load() -> None:
    changes = RUNS.changes("x", "a", "b")
    assert list(changes.by_load) == [0.5, 0.8]
    assert changes.by_load[0.5].mean == pytest.approx(40 / 140 - 1)


def test_values__a_figure_that_a_run_lacks_is_nan_and_raw_is_none() -> None:
    runs = Runs([run_of("a", seed=1, missed=None), run_of("a", seed=2, missed=0.5)])
    first, second = runs.values("missed", "a")
    assert first != first
    assert second == 0.5
    assert runs.raw("missed", "a") == [None, 0.5]


def test_valid__of_the_variants_that_are_named() -> None:
    runs = Runs([run_of("a"), run_of("b", valid=False)])
    assert runs.valid("a")
    assert not runs.valid("a", "b")
    assert not runs.valid()


def test_by_load__one_value_a_seed() -> None:
    assert RUNS.by_load({"what": "x"})["a"] == {"0.5": {"what": [10.0, 30.0]}, "0.8": {"what": [1.0, 3.0]}}


POINT = NamedPoint("a variant", None, 1, {}, "x")


def record(number: int, **values: Any) -> FlowRecord:
    usual: dict[str, Any] = {"started_at": 101.0 + number, "fct_us": 2000.0, "source": "scheduled"}
    return FlowRecord(
        **{
            "id": f"r/{number}",
            "src": "h1",
            "dst": "h2",
            "bytes": 10_000,
            "size_class": "small",
            "ideal_us": 1000.0,
            "deadline_us": None,
            "met": None,
            "retransmissions": 3,
            "congestion_control": "cubic",
            "scheme": "tcp",
            "status": "finished",
            **usual,
            **values,
        }
    )


def bundle_of(folder: Path, **meta: Any) -> Run:
    write_bundle(
        folder / "x",
        scenario={"name": "x"},
        meta={"start_at": 100.0, "tcp": {"retransmission_timeouts": 4}, **meta},
        flows=[record(1), record(0), record(2, source="background")],
        thresholds=[
            ThresholdChange(102.0, "s1:1", 1, (20_000,), 7),
            ThresholdChange(101.0, "s1:1", 1, (5,), 7),
        ],
        samples=[],
        validity_reasons=["the CPU was saturated"],
    )
    return read_run(POINT, folder, lambda bundle: {"own": 7.0})


def test_read_run__the_figures_of_its_bundle(tmp_path: Path) -> None:
    run = bundle_of(tmp_path)
    assert not run.valid
    assert run.row["reasons"] == ["the CPU was saturated"]
    assert (run.row["timeouts"], run.row["dropped"], run.row["attempts"], run.row["own"]) == (4, None, 1, 7.0)
    assert run.row["fct_us_small_mean"] == distribution(np.asarray([2000.0, 2000.0]))["mean"]


def test_read_run__what_only_the_simulator_counts(tmp_path: Path) -> None:
    assert bundle_of(tmp_path, packets_sent=200, packets_dropped=3).row["dropped"] == 0.015


def test_flows__the_scheduled_ones_from_the_begin_of_the_run(tmp_path: Path) -> None:
    flows = bundle_of(tmp_path).flows()
    assert list(flows.started_s) == [2.0, 1.0]
    assert list(flows.by_number.started_s) == [1.0, 2.0]


def test_thresholds__of_the_port_in_the_order_of_time(tmp_path: Path) -> None:
    run = bundle_of(tmp_path)
    assert run.thresholds("s1:1") == [(1.0, 5), (2.0, 20_000)]
    assert run.thresholds("s1:2") == []


def test_read_run__reads_what_attempts_were_made(tmp_path: Path) -> None:
    bundle_of(tmp_path)
    (tmp_path / "x" / "attempts").write_text("2")
    assert read_run(POINT, tmp_path).row["attempts"] == 2
