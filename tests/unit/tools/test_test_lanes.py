# SPDX-License-Identifier: Apache-2.0
"""The lanes of `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.wait import wait_until
from tools.test_lanes import API, PROCESSOR, REAL_TIME, ROOT, Lane, RunningLane, lanes


def wait_ended(lane: RunningLane) -> None:
    wait_until(lambda: not lane.poll(), "the lane ends", timeout_s=120)


def test_every_tier_is_in_one_lane() -> None:
    tiers = {
        f"tests/{path.parent.relative_to(ROOT / 'tests').parts[0]}"
        for path in ROOT.glob("tests/*/**/test_*.py")
    }
    assert sorted([*REAL_TIME, *PROCESSOR, *API]) == sorted(tiers)


def test_the_processor_lane_gives_way() -> None:
    real_time, processor = lanes(cores=2)
    assert real_time.nice < processor.nice


@pytest.mark.slow
def test_running_lane__fails_if_any_of_its_runs_fails_and_does_them_all(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_fails():\n    assert False, 'the first run'\n")
    (tmp_path / "test_two.py").write_text("def test_passes():\n    print('the second run')\n")
    runs = ((str(tmp_path / "test_one.py"),), (str(tmp_path / "test_two.py"), "-s"))
    lane = RunningLane(Lane("two runs", 0, runs), ["-p", "no:cacheprovider"], tmp_path)
    wait_ended(lane)
    assert lane.failed
    output = lane.open_log().read().decode()
    assert "the first run" in output
    assert "the second run" in output


@pytest.mark.slow
def test_running_lane__a_run_whose_options_select_no_test_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_passes():\n    pass\n")
    lane = RunningLane(
        Lane("none", 0, ((str(tmp_path),),)), ["-k", "nothing", "-p", "no:cacheprovider"], tmp_path
    )
    wait_ended(lane)
    assert not lane.failed
