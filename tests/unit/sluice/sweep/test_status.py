# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runs.work import Work
from sluice.sweep.display import headline
from sluice.sweep.progress import SweepProgress
from sluice.sweep.status import DONE, FAILED, RUNNING, Status, StatusFile, read_status, remaining_s
from tests.kit.known import known


def running(elapsed_s: float, done: int, flows: int = 100) -> Status:
    return Status(RUNNING, elapsed_s, done, flows)


def test_status_file__what_is_written_is_read(tmp_path: Path) -> None:
    file = StatusFile(tmp_path, "pias/load-0.5/seed-01")
    assert known(read_status(tmp_path, "pias/load-0.5/seed-01")).state == RUNNING
    file.progress(30, 100)
    file.end(FAILED, "no such host")
    status = known(read_status(tmp_path, "pias/load-0.5/seed-01"))
    assert (status.state, status.done, status.flows, status.reason) == (FAILED, 30, 100, "no such host")
    assert read_status(tmp_path, "pias/load-0.5/seed-02") is None


def test_status_remaining__as_the_flows_went_so_far() -> None:
    assert running(10, 25).remaining_s == pytest.approx(30)
    assert running(10, 100).remaining_s == 0
    assert running(10, 1).remaining_s is None


def works(*amounts: float | None, scheme: str = "pias") -> dict[str, Work]:
    """Points a, b, c, …"""
    return {name: Work(scheme, amount) for name, amount in zip("abcdefgh", amounts, strict=False)}


def test_remaining__nobody_knows_before_anything_has_moved() -> None:
    assert remaining_s({"a": running(5, 0)}, works(1, 1, 1, 1), jobs=1) is None
    assert remaining_s({}, works(1, 1, 1), jobs=1) is None


def test_remaining__nothing_left_is_no_time() -> None:
    assert remaining_s({"a": Status(DONE, 10)}, works(1), jobs=2) == 0


def test_remaining__waiting_points_share_the_places() -> None:
    done = {"a": Status(DONE, 10.0)}
    assert remaining_s(done, works(1, 1, 1, 1, 1), jobs=2) == pytest.approx(20)
    assert remaining_s(done, works(1, 1, 1, 1, 1, 1), jobs=2) == pytest.approx(30)
    assert remaining_s({**done, "b": running(5, 50)}, works(1, 1, 1), jobs=1) == pytest.approx(5 + 10)


def test_remaining__a_point_that_runs_tells_of_those_that_wait() -> None:
    assert remaining_s({"a": running(5, 50)}, works(1, 1, 1), jobs=1) == pytest.approx(5 + 2 * 10)


def test_remaining__a_point_with_nine_times_the_work_takes_nine_times_as_long() -> None:
    done = {"a": Status(DONE, 10.0), "b": Status(DONE, 10.0)}
    assert remaining_s(done, works(1, 1, 9, 9), jobs=1) == pytest.approx(180)
    assert remaining_s({**done, "c": running(30, 0)}, works(1, 1, 9), jobs=1) == pytest.approx(60)
    assert remaining_s({**done, "c": running(200, 0)}, works(1, 1, 9), jobs=1) == 0


def test_remaining__each_scheme_has_its_own_pace() -> None:
    both = {**works(1, 1), **{name: Work("pfabric", 1.0) for name in "cd"}}
    done = {"a": Status(DONE, 10.0), "c": Status(DONE, 50.0)}
    assert remaining_s(done, both, jobs=1) == pytest.approx(10 + 50)
    new = {**both, "e": Work("tcp", 1.0)}
    assert remaining_s(done, new, jobs=1) == pytest.approx(10 + 50 + 30)


def test_remaining__unknown_work_is_like_the_others() -> None:
    assert remaining_s({"a": Status(DONE, 10.0)}, works(2, 4, None), jobs=1) == pytest.approx(20 + 15)


def test_remaining__a_failed_point_takes_no_time() -> None:
    ended = {"a": Status(DONE, 10.0), "b": Status(FAILED, 0.1)}
    assert remaining_s(ended, works(1, 1, 1), jobs=1) == pytest.approx(10)


def test_headline__says_what_is_known() -> None:
    progress = SweepProgress(12, 7, 1, {"a": running(5, 50)}, 200.0)
    assert headline(progress) == "7 of 12 points done, 1 running, 1 failed, about 3 min left"
    assert headline(SweepProgress(2, 0, 0, {}, None)) == "0 of 2 points done, time left still unknown"
    assert headline(SweepProgress(2, 2, 0, {}, 0.0)) == "2 of 2 points done"
