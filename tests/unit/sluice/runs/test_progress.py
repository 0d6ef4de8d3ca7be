# SPDX-License-Identifier: Apache-2.0
"""The progress of a run: figures so far, progress.json."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sluice.policy.figures.metrics import FlowFigures
from sluice.runs.progress import FAILED, FILE, Progress, RunningFigures, born_at, progress_file, read_state


def flows(fct_us: list[float], classes: list[int], deadlines: list[bool], met: list[bool]) -> FlowFigures:
    times = np.asarray(fct_us)
    return FlowFigures(times, times, np.asarray(classes, np.uint8), np.asarray(deadlines), np.asarray(met), 0)


def test_running_figures__are_those_of_all_parts_together() -> None:
    rng = np.random.default_rng(1)
    fct_us = np.exp(rng.normal(8, 2, 30_000))
    classes = rng.integers(0, 3, 30_000).astype(np.uint8)
    none = np.zeros(30_000, bool)
    figures = RunningFigures()
    for part in np.array_split(np.arange(30_000), 7):
        figures.add(FlowFigures(fct_us[part], fct_us[part], classes[part], none[part], none[part], 0))
    found = figures.document()["classes"]
    for name, chosen in {"small": classes == 0, "large": classes == 2, "all": ~none}.items():
        assert found[name]["n"] == chosen.sum()
        assert found[name]["mean_us"] == pytest.approx(fct_us[chosen].mean())
        assert found[name]["p99_us"] == pytest.approx(np.percentile(fct_us[chosen], 99), rel=0.02)


def test_running_figures__count_unfinished_flows_and_missed_deadlines() -> None:
    figures = RunningFigures()
    figures.add(flows([100.0, float("nan"), 50.0], [0, 0, 1], [True, True, False], [True, False, False]))
    found = figures.document()
    assert (found["deadlines"], found["missed"], found["unfinished"]) == (2, 1, 1)
    assert found["classes"]["small"]["n"] == 1
    assert found["classes"]["large"] == {"n": 0, "mean_us": None, "p99_us": None}


def test_running_figures__extreme_times_stay_in_the_histogram() -> None:
    figures = RunningFigures()
    figures.add(flows([0.0, 1e15], [0, 2], [False, False], [False, False]))
    assert figures.document()["classes"]["all"]["n"] == 2


NAMES = {"name": "x", "scheme": "pias", "on": "simulator"}


def test_progress_file__lives_as_long_as_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.progress.WRITE_EVERY_S", 0.0)
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
