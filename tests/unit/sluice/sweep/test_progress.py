# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.cli import main
from sluice.policy.fabrics import SIMULATOR
from sluice.runs.folder import SWEEP, describe, entry_of
from sluice.sweep import Point
from sluice.sweep.progress import SweepProgress, sweep_file
from sluice.sweep.status import RUNNING, Status
from tests.unit.sluice.bundles import document

POINTS = [Point(scheme, 0.5, 1, document(scheme)) for scheme in ("dctcp", "pias")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a sweep that has begun."""
    config = {"on": SIMULATOR, "points": {point.name: {"scheme": point.scheme} for point in POINTS}}
    (tmp_path / "sweep.json").write_text(json.dumps(config))
    return tmp_path


def test_share__running_points_count_by_their_flows() -> None:
    half = {"pias/load-0.5/seed-01": Status(RUNNING, 10.0, 50, 100)}
    assert SweepProgress(4, 1, 1, half, None).share == pytest.approx(2.5 / 4)
    assert SweepProgress(0, 0, 0, {}, 0).share == 0


def test_sweep_file__lives_as_long_as_the_sweep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.progress_file.WRITE_EVERY_S", 0.0)
    with sweep_file(folder, POINTS, SIMULATOR) as file:
        file.report(SweepProgress(2, 1, 0, {}, 30.0))
        known = describe(entry_of(folder.parent, folder.name))
        file.end(2, {})
    assert (known["kind"], known["state"], known["schemes"]) == (SWEEP, "running", ["dctcp", "pias"])
    assert known["progress"]["remaining_s"] == 30.0
    assert (known["progress"]["recorded"], known["progress"]["scheduled"]) == (1, 2)
    assert known["progress"]["share"] == 0.5
    assert not (folder / "progress.json").exists()


def test_top__a_sweep_counts_its_points(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.runs.progress_file.WRITE_EVERY_S", 0.0)
    with sweep_file(folder, POINTS, SIMULATOR) as file:
        file.report(SweepProgress(2, 1, 0, {}, 30.0))
        assert main(["top", "--once", str(folder)]) == 0
    during = "".join(capsys.readouterr().out.splitlines())
    assert "dctcp, pias on the simulator, 50%, 1/2 points, about 30 s left" in during
    assert main(["top", "--once", str(folder)]) == 0
    assert "sweep, 0 of 2 points done" in "".join(capsys.readouterr().out.splitlines())


def test_top__a_sweep_that_never_began(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sweep.json").unlink()
    (folder / "request.json").write_text('{"sweep": true, "on": "simulator"}')
    assert main(["top", "--once", str(folder)]) == 0
    assert "sweep on the simulator, not begun" in "".join(capsys.readouterr().out.splitlines())


def test_sweep_file__failed_points_are_a_reason_that_stays(folder: Path) -> None:
    with sweep_file(folder, POINTS, SIMULATOR) as file:
        file.end(2, {"pias/load-0.5/seed-01": "no room"})
    known = describe(entry_of(folder.parent, folder.name))
    assert known["state"] == "partial"
    assert known["reason"] == "1 of 2 points failed; pias/load-0.5/seed-01: no room"


def test_sweep_file__a_killed_sweep_is_not_under_way(folder: Path) -> None:
    with sweep_file(folder, POINTS, SIMULATOR):
        kept = json.loads((folder / "progress.json").read_text())
    (folder / "progress.json").write_text(json.dumps({**kept, "born": 1}))
    known = describe(entry_of(folder.parent, folder.name))
    assert known["state"] == "partial"
    assert "ended without a message" in known["reason"]
