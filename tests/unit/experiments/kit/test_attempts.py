# SPDX-License-Identifier: Apache-2.0
"""Runs one after the other: a run that is not valid is made again, and an existing one is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.kit import attempts
from experiments.kit.attempts import run_each
from experiments.kit.claims import all_valid
from experiments.kit.experiment import Given
from experiments.kit.points import one_group
from experiments.kit.runs import Results, read_results
from experiments.kit.schemes import by_scheme, scheme_table
from sluice.policy.figures.metrics import distribution
from sluice.runs.files import Resolved
from sluice.sweep.points import Point, points

DOCUMENT = {
    "name": "x",
    "seed": 1,
    "fabric": {"topology": "single", "hosts": 2, "host_rate": "10Mbit"},
    "scheme": {"name": "dctcp"},
    "workload": {"mix": [{"bytes": "10KB", "share": 1.0}], "load": 0.5, "flows": 3},
}


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
    monkeypatch.setattr(attempts, "runner", fabric)
    run_each(found, out, "testbed", 3)
    given = Given(out)
    return read_results(given, one_group(given, found))


def test_run_each__a_run_that_is_not_valid_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = FakeFabric(bad=2)
    [run] = run_all(fabric, points(DOCUMENT), tmp_path, monkeypatch).runs.runs
    assert fabric.runs == ["dctcp-1"] * 3
    assert (run.valid, run.row["attempts"]) == (True, 3)


def test_run_each__not_for_ever_and_then_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = FakeFabric(bad=99)
    results = run_all(fabric, points(DOCUMENT), tmp_path, monkeypatch)
    assert len(fabric.runs) == 3
    assert results.runs.runs[0].row["reasons"] == ["busy"]
    assert [claim.holds for claim in all_valid(results.runs)] == [False, True]
    run_all(fabric, points(DOCUMENT), tmp_path, monkeypatch)
    assert len(fabric.runs) == 3, "a later call does not begin again"


def test_run_each__what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = FakeFabric()
    found = points(DOCUMENT, schemes=["dctcp", "pias"], seeds=[1, 2])
    run_all(fabric, found, tmp_path, monkeypatch)
    results = run_all(fabric, found, tmp_path, monkeypatch)
    assert fabric.runs == ["dctcp-1", "dctcp-2", "pias-1", "pias-2"]
    assert results.runs.values("fct_us_small_mean", "pias") == [1000.0, 1000.0]
    assert by_scheme(results.runs)["dctcp"]["retransmissions"] == [7, 7]
    assert "| pias | 1.00 ± 0.00 | 1.00 ± 0.00 | – | – | – | – | 7.00 ± 0.00 | 2/2 |" in scheme_table(results)
