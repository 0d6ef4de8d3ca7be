# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sluice.report.charts import TIMES, Moves, threshold_moves
from sluice.report.runs import Run, find_runs
from sluice.runs.bundle import BundleWriter
from tests.kit.bundles import document, flow
from tests.kit.known import known


def run_with(folder: Path, changes: list[tuple[float, str, list[int]]], version: int = 1) -> Run:
    """Return a run whose thresholds changed as (seconds, port, thresholds)."""
    with BundleWriter(folder, scenario=document("mlfq-adaptive")) as bundle:
        bundle.add_records([flow(1, 1000, 100.0)])
        bundle.add_thresholds(
            {"at": at, "port": port, "policy_version": version, "thresholds_bytes": values, "flows": 0}
            for at, port, values in changes
        )
        bundle.finish(meta={"on": "simulator"}, validity_reasons=[])
    (run,) = find_runs([folder])
    return run


def moves_of(tmp_path: Path, *changes: tuple[float, str, list[int]]) -> Moves | None:
    return threshold_moves(run_with(tmp_path, list(changes)))


def test_threshold_moves__each_port_holds_its_thresholds_until_the_next_change(tmp_path: Path) -> None:
    found = known(
        moves_of(
            tmp_path, (5.0, "s1:1", [100]), (5.0, "s1:2", [100]), (7.0, "s1:1", [300]), (9.0, "s1:2", [500])
        )
    )
    assert found.at_s.tolist() == [0, 2, 4]
    assert found.median[:, 0].tolist() == [100, 200, 400]
    assert (found.ports, found.low[2, 0], found.high[2, 0]) == (2, 320, 480)


def test_threshold_moves__a_port_counts_from_its_first_thresholds_on(tmp_path: Path) -> None:
    found = known(moves_of(tmp_path, (0.0, "s1:1", [100]), (1.0, "s1:2", [300]), (2.0, "s1:1", [500])))
    assert found.median[:, 0].tolist() == [100, 200, 400]


def test_threshold_moves__none_if_no_port_moves_any(tmp_path: Path) -> None:
    assert moves_of(tmp_path, (0.0, "s1:1", [100]), (1.0, "s1:1", [100]), (1.0, "s1:2", [7])) is None
    assert moves_of(tmp_path / "empty") is None


def test_threshold_moves__many_changes_become_few_points(tmp_path: Path) -> None:
    found = known(moves_of(tmp_path, *((float(i), "s1:1", [i + 1]) for i in range(2000))))
    assert found.median.shape == (TIMES, 1)
    assert found.median[-1, 0] == 2000
    assert (np.diff(found.median[:, 0]) > 0).all()


def test_threshold_moves__only_those_of_the_runs_version(tmp_path: Path) -> None:
    run: Any = run_with(tmp_path, [(0.0, "s1:1", [100]), (1.0, "s1:1", [200])], version=4)
    assert threshold_moves(Run(run.folder, run.document, run.meta, run.summary, version=4)) is not None
    assert threshold_moves(Run(run.folder, run.document, run.meta, run.summary, version=5)) is None
