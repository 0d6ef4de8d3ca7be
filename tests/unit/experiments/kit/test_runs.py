# SPDX-License-Identifier: Apache-2.0
"""Finished runs: by variant, load and seed; ratios and differences are paired by seed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.kit import runners
from experiments.kit.experiment import Given
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import NamedPoint, one_group, read_results, run_each
from experiments.kit.runs import Results, Run, all_valid, numbers_of, read_run, scheme_table
from sluice.policy.figures.metrics import distribution
from sluice.runs.files import Resolved, resolve
from sluice.store.observed import ThresholdChange
from sluice.sweep.points import Point, points
from tests.kit.bundles import document, record, write_bundle

POINT = NamedPoint("a variant", None, 1, {}, "x")


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
        validity_reasons=["the CPU was saturated"],
    )
    return read_run(POINT, folder, lambda bundle: {"own": 7.0})


def test_read_run__the_figures_of_its_bundle(tmp_path: Path) -> None:
    run = bundle_of(tmp_path)
    assert not run.valid
    assert run.row["reasons"] == ["the CPU was saturated"]
    assert (run.row["timeouts"], run.row["dropped"], run.row["attempts"], run.row["own"]) == (4, None, 1, 7.0)
    assert run.row["fct_us_small_mean"] == distribution(np.asarray([2000.0, 2000.0]))["mean"]


def test_flows__the_scheduled_ones_from_the_begin_of_the_run(tmp_path: Path) -> None:
    flows = bundle_of(tmp_path).flows()
    assert list(flows.started_s) == [2.0, 1.0]
    assert list(flows.by_number.started_s) == [1.0, 2.0]


def test_need_finished__a_flow_that_did_not_finish_is_no_fast_one(tmp_path: Path) -> None:
    ended = [record(0), record(1, fct_us=None, status="unfinished")]
    write_bundle(tmp_path, scenario={}, meta={"start_at": 100.0}, flows=ended)
    flows = read_flow_columns(tmp_path)
    assert np.isnan(flows.fct_us[1])
    assert len(flows.of(np.asarray([0])).need_finished()) == 1
    with pytest.raises(ValueError, match="unfinished"):
        flows.need_finished()


# Runs one after the other: a run that is not valid is made again, and an existing one is not.


def summary(valid: bool) -> dict[str, Any]:
    nothing = dict.fromkeys(("all", "medium", "large"), distribution(np.asarray([])))
    figures = {"small": distribution(np.asarray([1000.0])), **nothing}
    return {
        "fct_us": figures,
        "slowdown": figures,
        "deadlines": {"n": 0, "missed": 0, "miss_ratio": None},
        "retransmissions": 7,
        "unfinished": 0,
        "valid": {"ok": valid, "reasons": [] if valid else ["busy"]},
    }


class FakeFabric:
    """Writes bundles; the first `bad` runs are not valid."""

    def __init__(self, bad: int = 0) -> None:
        self.runs: list[str] = []
        self.bad = bad

    def __call__(self, on: str) -> Callable[..., dict[str, Any]]:
        return self.run

    def run(self, resolved: Resolved, out: Path, report: object) -> dict[str, Any]:
        scenario, document, _ = resolved
        self.runs.append(f"{scenario.policy.scheme}-{scenario.seed}")
        out.mkdir(parents=True, exist_ok=True)
        made = summary(valid=len(self.runs) > self.bad)
        for name, content in (("scenario", document), ("meta", {}), ("summary", made)):
            (out / f"{name}.json").write_text(json.dumps(content))
        return made


def run_all(fabric: FakeFabric, found: list[Point], out: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.setattr(runners, "runner", fabric)
    run_each(found, out, "testbed", 3)
    given = Given(out)
    return read_results(given, one_group(given, found))


def test_run_each__a_run_that_is_not_valid_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = FakeFabric(bad=2)
    [run] = run_all(fabric, points(document()), tmp_path, monkeypatch).runs.runs
    assert fabric.runs == ["dctcp-1"] * 3
    assert (run.valid, run.row["attempts"]) == (True, 3)


def test_run_each__not_for_ever_and_then_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = FakeFabric(bad=99)
    results = run_all(fabric, points(document()), tmp_path, monkeypatch)
    assert len(fabric.runs) == 3
    assert results.runs.runs[0].row["reasons"] == ["busy"]
    assert [claim.holds for claim in all_valid(results.runs)] == [False, True]
    run_all(fabric, points(document()), tmp_path, monkeypatch)
    assert len(fabric.runs) == 3, "a later call does not begin again"


def test_run_each__what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = FakeFabric()
    found = points(document(), schemes=["dctcp", "pias"], seeds=[1, 2])
    run_all(fabric, found, tmp_path, monkeypatch)
    results = run_all(fabric, found, tmp_path, monkeypatch)
    assert fabric.runs == ["dctcp-1", "dctcp-2", "pias-1", "pias-2"]
    assert results.runs.values("fct_us_small_mean", "pias") == [1000.0, 1000.0]
    assert numbers_of(results)["dctcp"]["retransmissions"] == [7, 7]
    assert "| pias | 1.00 ± 0.00 | 1.00 ± 0.00 | – | – | – | – | 7.00 ± 0.00 | 2/2 |" in scheme_table(results)


def test_run_each__a_function_of_the_experiment_takes_the_place_of_the_fabric(tmp_path: Path) -> None:
    fabric, made = FakeFabric(), []

    def run(point: Point, out: Path, report: object) -> dict[str, Any]:
        made.append(point.scheme)
        return fabric.run(resolve(point.document), out, report)

    run_each(points(document(), schemes=["dctcp", "pias"]), tmp_path, "testbed", 1, run)
    assert made == ["dctcp", "pias"]
    assert fabric.runs == ["dctcp-1", "pias-1"]
