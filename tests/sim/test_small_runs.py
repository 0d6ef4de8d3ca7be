# SPDX-License-Identifier: Apache-2.0
"""Many short runs in a few processes: each one runs once, and failures are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import run_all
from sluice.policy.errors import SluiceError
from sluice.sweep.points import Point, points

DOCUMENT = {
    "name": "small",
    "fabric": {"topology": "single", "hosts": 3, "host_rate": "1Gbit"},
    "scheme": {"name": "dctcp"},
    "workload": {
        "mix": [{"bytes": "10KB", "share": 1.0}],
        "pattern": "many-to-one",
        "to": "h1",
        "load": 0.3,
        "flows": 50,
    },
}


def test_run_all__resumes(tmp_path: Path) -> None:
    planned = points(DOCUMENT, seeds=[1, 2])
    run_all(planned, tmp_path, jobs=1)
    written = {point.name: (tmp_path / point.name / "summary.json").stat().st_mtime_ns for point in planned}
    run_all(planned + points(DOCUMENT, seeds=[3]), tmp_path, jobs=1)
    assert written == {
        point.name: (tmp_path / point.name / "summary.json").stat().st_mtime_ns for point in planned
    }
    flows = [read_flow_columns(tmp_path / point.name) for point in [*planned, *points(DOCUMENT, seeds=[3])]]
    assert [len(of.fct_us) for of in flows] == [50, 50, 50]
    assert len({of.fct_us.sum() for of in flows}) == 3


def test_run_all__what_failed_is_named_and_the_others_run(tmp_path: Path) -> None:
    [good] = points(DOCUMENT)
    bad = Point("broken", 0.3, 1, {**good.document, "workload": {}})
    with pytest.raises(SluiceError, match=f"1 of 2 runs failed: {bad.name}"):
        run_all([bad, good], tmp_path, jobs=1)
    assert (tmp_path / good.name / "summary.json").exists()
