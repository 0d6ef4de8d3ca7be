# SPDX-License-Identifier: Apache-2.0
"""The progress of a sweep: states of points, time left, progress.json."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.cli import main
from sluice.policy.fabrics import SIMULATOR
from sluice.runs.folder import SWEEP, describe, entry_of
from sluice.runs.prediction import Work
from sluice.runs.progress import DONE, RUNNING, Progress, ProgressFile, RunState
from sluice.sweep import Point
from sluice.sweep.progress import SweepProgress, read_status, remaining_s, status_folder, sweep_file
from sluice.sweep.table import headline
from tests.kit.bundles import document
from tests.kit.known import known

POINTS = [Point(scheme, 0.5, 1, document(scheme)) for scheme in ("dctcp", "pias")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sweep that has begun. The terminal is wide, because the folder's path has no fixed length."""
    monkeypatch.setenv("COLUMNS", "400")
    config = {"on": SIMULATOR, "points": {point.name: {"scheme": point.scheme} for point in POINTS}}
    (tmp_path / "sweep.json").write_text(json.dumps(config))
    return tmp_path


def test_share__running_points_count_by_their_flows() -> None:
    half = {"pias/load-0.5/seed-01": running(10, 0.5)}
    assert SweepProgress(4, 1, 1, half, None).share == pytest.approx(2.5 / 4)
    assert SweepProgress(0, 0, 0, {}, 0).share == 0


def test_sweep_file__lives_as_long_as_the_sweep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.progress.WRITE_EVERY_S", 0.0)
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
    monkeypatch.setattr("sluice.runs.progress.WRITE_EVERY_S", 0.0)
    with sweep_file(folder, POINTS, SIMULATOR) as file:
        file.report(SweepProgress(2, 1, 0, {}, 30.0))
        assert main(["top", "--once", str(folder)]) == 0
    during = " ".join(capsys.readouterr().out.split())
    assert "dctcp, pias on the simulator, 50%, 1/2 points, about 30 s left" in during
    assert main(["top", "--once", str(folder)]) == 0
    assert "sweep, 0 of 2 points done" in " ".join(capsys.readouterr().out.split())


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


def running(elapsed_s: float, share: float) -> RunState:
    left_s = Progress(share, 1, 0, 0).remaining_s(elapsed_s)
    return RunState(1, 1, "", "", "", 0, elapsed_s=elapsed_s, share=share, remaining_s=left_s)


def finished(elapsed_s: float) -> RunState:
    return replace(running(elapsed_s, 1), state=DONE)


def test_read_status__the_file_of_a_point_stays(tmp_path: Path) -> None:
    file = ProgressFile(
        status_folder(tmp_path, "pias/load-0.5/seed-01"), name="x", scheme="pias", on=SIMULATOR
    )
    assert known(read_status(tmp_path, "pias/load-0.5/seed-01")).state == RUNNING
    file.keep()
    status = known(read_status(tmp_path, "pias/load-0.5/seed-01"))
    assert (status.state, status.share) == (DONE, 1)
    assert read_status(tmp_path, "pias/load-0.5/seed-02") is None


def works(*amounts: float | None, scheme: str = "pias") -> dict[str, Work]:
    """Points a, b, c, …"""
    return {name: Work(scheme, amount) for name, amount in zip("abcdefgh", amounts, strict=False)}


def test_remaining__nobody_knows_before_anything_has_moved() -> None:
    assert remaining_s({"a": running(5, 0)}, works(1, 1, 1, 1), jobs=1) is None
    assert remaining_s({}, works(1, 1, 1), jobs=1) is None
    assert remaining_s({"a": finished(10)}, works(1), jobs=2) == 0, "nothing is left"


def test_remaining__waiting_points_share_the_places() -> None:
    done = {"a": finished(10)}
    assert remaining_s(done, works(1, 1, 1, 1, 1), jobs=2) == pytest.approx(20)
    assert remaining_s(done, works(1, 1, 1, 1, 1, 1), jobs=2) == pytest.approx(30)
    assert remaining_s({**done, "b": running(5, 0.5)}, works(1, 1, 1), jobs=1) == pytest.approx(5 + 10)


def test_remaining__a_point_with_nine_times_the_work_takes_nine_times_as_long() -> None:
    done = {"a": finished(10), "b": finished(10)}
    assert remaining_s(done, works(1, 1, 9, 9), jobs=1) == pytest.approx(180)
    assert remaining_s({**done, "c": running(30, 0)}, works(1, 1, 9), jobs=1) == pytest.approx(60)
    assert remaining_s({**done, "c": running(200, 0)}, works(1, 1, 9), jobs=1) == 0


def test_remaining__each_scheme_has_its_own_pace() -> None:
    both = {**works(1, 1), **{name: Work("pfabric", 1.0) for name in "cd"}}
    done = {"a": finished(10), "c": finished(50)}
    assert remaining_s(done, both, jobs=1) == pytest.approx(10 + 50)
    new = {**both, "e": Work("tcp", 1.0)}
    assert remaining_s(done, new, jobs=1) == pytest.approx(10 + 50 + 30)


def test_headline__says_what_is_known() -> None:
    progress = SweepProgress(12, 7, 1, {"a": running(5, 0.5)}, 200.0)
    assert headline(progress) == "7 of 12 points done, 1 running, 1 failed, about 3 min left"
    assert headline(SweepProgress(2, 0, 0, {}, None)) == "0 of 2 points done, time left still unknown"
    assert headline(SweepProgress(2, 2, 0, {}, 0.0)) == "2 of 2 points done"
