# SPDX-License-Identifier: Apache-2.0
"""Behaviour that tests/sim/test_sweep.py does not cover. Nothing runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.sweep import Point, run_points
from sluice.sweep.points import is_finished
from tests.kit.bundles import bundle, document, flow


def finished_point(folder: Path) -> Point:
    point = Point("dctcp", 0.5, 1, document())
    bundle(folder / point.name, point.document, [flow(1, 5000, 70.0)])
    return point


def test_is_finished__only_of_the_very_same_scenario(tmp_path: Path) -> None:
    point = finished_point(tmp_path)
    assert is_finished(tmp_path, point)
    assert not is_finished(tmp_path, Point("dctcp", 0.5, 1, document(fabric={"hosts": 8})))
    assert not is_finished(tmp_path, Point("dctcp", 0.5, 2, document(seed=2)))


def test_is_finished__half_a_summary_is_none(tmp_path: Path) -> None:
    point = finished_point(tmp_path)
    summary = tmp_path / point.name / "summary.json"
    summary.write_text(summary.read_text()[:-10])
    assert not is_finished(tmp_path, point)


def test_run_points__nothing_to_do_starts_nothing(tmp_path: Path) -> None:
    point = finished_point(tmp_path)
    outcome = run_points([point], tmp_path)
    assert (outcome.finished, outcome.failed) == ([point], {})
    assert not (tmp_path / "snakemake.log").exists()


def test_run_points__the_testbed_runs_one_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(SluiceError, match="--jobs: must be 1 on the testbed"):
        run_points([finished_point(tmp_path)], tmp_path, on=TESTBED, jobs=2)


def test_run_points__a_folder_keeps_to_one_fabric(tmp_path: Path) -> None:
    run_points([finished_point(tmp_path)], tmp_path)
    with pytest.raises(SluiceError, match="holds a sweep on the simulator; give another folder with --out"):
        run_points([finished_point(tmp_path)], tmp_path, on=TESTBED)
