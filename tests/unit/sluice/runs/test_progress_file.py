# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sluice.runs.progress import Progress
from sluice.runs.progress_file import FAILED, FILE, born_at, progress_file, read_state

NAMES = {"name": "x", "scheme": "pias", "on": "simulator"}


def test_progress_file__lives_as_long_as_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.progress_file.WRITE_EVERY_S", 0.0)
    with progress_file(tmp_path / "out", **NAMES) as file:
        state = read_state(tmp_path / "out")
        assert state is not None
        assert state.is_alive
        assert (state.pid, state.scheme) == (os.getpid(), "pias")
        file.report(Progress(30, 120, 30, 120))
        state = read_state(tmp_path / "out")
        assert state is not None
        assert (state.share, state.recorded, state.scheduled) == (0.25, 30, 120)
        assert state.remaining_s == pytest.approx(3 * state.elapsed_s)
    assert read_state(tmp_path / "out") is None


def test_progress_file__a_failed_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no room"), progress_file(tmp_path, **NAMES):
        raise ValueError("no room")
    state = read_state(tmp_path)
    assert state is not None
    assert (state.state, state.reason, state.is_alive) == (FAILED, "no room", False)


def test_progress_file__an_interrupted_run_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), progress_file(tmp_path, **NAMES):
        raise KeyboardInterrupt
    assert not (tmp_path / FILE).exists()


def test_run_state__the_next_process_with_the_number_is_another_run(tmp_path: Path) -> None:
    with progress_file(tmp_path, **NAMES):
        document = json.loads((tmp_path / FILE).read_text())
        (tmp_path / FILE).write_text(json.dumps({**document, "born": document["born"] - 1}))
        state = read_state(tmp_path)
    assert state is not None
    assert not state.is_alive


def test_born_at__none_for_a_process_that_has_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert born_at(process.pid) is None
    assert born_at(os.getpid())


def test_progress__the_time_left_is_unknown_at_the_start() -> None:
    assert Progress(0, 100, 0, 100).remaining_s(5) is None
    assert Progress(50, 100, 50, 100).remaining_s(5) == pytest.approx(5)
    assert Progress(-0.3, 10, 0, 100).share == 0
