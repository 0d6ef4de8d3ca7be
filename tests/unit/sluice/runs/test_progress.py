# SPDX-License-Identifier: Apache-2.0
"""The progress of a run: figures so far, progress.json."""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.figures.metrics import FlowFigures
from sluice.policy.units import PS_PER_S
from sluice.runs.files import scenario_with
from sluice.runs.live.network import MAX_LAG_S, WINDOW_S, Pace
from sluice.runs.progress import (
    FAILED,
    Progress,
    RunningFigures,
    born_at,
    check_length,
    predicted_total_s,
    predicted_work,
    progress_file,
    read_state,
)
from tests.kit.known import known


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
    times, classes = np.array([100, np.nan, 50]), np.array([0, 0, 1], np.uint8)
    figures.add(FlowFigures(times, times, classes, np.array([1, 1, 0], bool), np.array([1, 0, 0], bool), 0))
    found = figures.document()
    assert (found["deadlines"], found["missed"], found["unfinished"]) == (2, 1, 1)
    assert found["classes"]["small"]["n"] == 1
    assert found["classes"]["large"] == {"n": 0, "mean_us": None, "p99_us": None}


NAMES = {"name": "x", "scheme": "pias", "on": "simulator"}


def test_progress_file__lives_as_long_as_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.progress.WRITE_EVERY_S", 0.0)
    with progress_file(tmp_path / "out", **NAMES) as file:
        state = known(read_state(tmp_path / "out"))
        assert state.is_alive
        assert (state.pid, state.scheme) == (os.getpid(), "pias")
        file.report(Progress(30, 120, 30, 120))
        state = known(read_state(tmp_path / "out"))
        assert (state.share, state.recorded, state.scheduled) == (0.25, 30, 120)
        assert state.remaining_s == pytest.approx(3 * state.elapsed_s)
    assert read_state(tmp_path / "out") is None


def test_progress_file__a_failed_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no room"), progress_file(tmp_path, **NAMES):
        raise ValueError("no room")
    state = known(read_state(tmp_path))
    assert (state.state, state.reason, state.is_alive) == (FAILED, "no room", False)
    with pytest.raises(ValueError, match="xxx"), progress_file(tmp_path, **NAMES):
        raise ValueError("x" * 100_000)
    assert known(read_state(tmp_path)).reason.startswith("xxx"), "a long reason leaves the file readable"


def test_born_at__none_for_a_process_that_has_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert born_at(process.pid) is None
    assert born_at(os.getpid())


# ── The work of a run, and how long it will take ───────────────────────────────────────────────


def work(on: str = SIMULATOR, fabric: dict[str, Any] | None = None, **workload: Any) -> float:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "100Mbit"} if fabric is None else fabric,
        "scheme": {"name": "dctcp"},
        "workload": {"mix": [{"bytes": "100KB", "share": 1.0}], "flows": 100, "load": 0.5} | workload,
    }
    return known(predicted_work(scenario_with(document), on))


def test_on_the_simulator_it_is_the_bytes_that_cross_ports() -> None:
    assert work(flows=900) == pytest.approx(9 * work())
    assert work(load=0.1) == work()
    assert work(scale=2.0) == pytest.approx(2 * work(), rel=0.01)
    assert work() == pytest.approx(100 * 100_000, rel=0.1)
    assert work(fabric={"topology": "leaf-spine", "hosts_per_leaf": 1}) == 3 * work()


def test_on_the_testbed_it_is_the_time_in_which_flows_start() -> None:
    assert work(TESTBED, load=0.1) == pytest.approx(5 * work(TESTBED))
    assert work(TESTBED) == pytest.approx(100 * 8 * 100_000 / (0.5 * 4 * 1e8), rel=0.1)


def test_a_shift_counts_both_sizes() -> None:
    shift = {"at": 0.25, "mix": [{"bytes": "1MB", "share": 1.0}]}
    assert work(shift=shift) == pytest.approx((0.25 + 0.75 * 10) * work(), rel=0.01)


def test_listed_flows_count_by_themselves() -> None:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "8Mbit"},
        "scheme": {"name": "dctcp"},
        "workload": {
            "flow": [{"from": "h1", "to": "h2", "bytes": "1MB"}, {"from": "h3", "to": "h2", "until": "2s"}]
        },
    }
    assert predicted_work(scenario_with(document), SIMULATOR) == 3_000_000
    assert predicted_work(scenario_with(document), TESTBED) == 2.0


def test_predicted_total__jobs_share_the_work_and_unknown_work_is_the_mean() -> None:
    assert predicted_total_s([2e12], SIMULATOR) == pytest.approx(
        2 * known(predicted_total_s([1e12], SIMULATOR))
    )
    one, four = (predicted_total_s([1e12, 3e12, None], SIMULATOR, jobs) for jobs in (1, 4))
    assert one == pytest.approx(3 * known(predicted_total_s([2e12], SIMULATOR)))
    assert one == pytest.approx(4 * known(four))
    assert predicted_total_s([60.0], TESTBED) == 60.0
    assert predicted_total_s([None], SIMULATOR) is None


def test_check_length__without_a_terminal_a_long_run_needs_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_length(3000.0, False)
    check_length(None, False)
    with pytest.raises(SluiceError, match=r"about 3 h 0 min.*--yes"):
        check_length(10_800.0, False)
    check_length(10_800.0, True)
    assert "about 3 h" in capsys.readouterr().err


def run(pace: Pace, began_s: float, seconds: float, most_speed: float, step_s: float = 0.01) -> int:
    """Move a network on that simulates at most `most_speed` seconds a second. Return its simulated time."""
    reached_ps = 0
    for step in range(1, round(seconds / step_s) + 1):
        now_s = began_s + step * step_s
        reached_ps = min(pace.due_ps(now_s), reached_ps + round(most_speed * step_s * PS_PER_S))
        pace.reached(now_s, reached_ps)
    return reached_ps


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_dilation__a_slow_machine_dilates_time_by_what_it_lacks(factor: float) -> None:
    pace = Pace(0.0)
    assert (pace.due_ps(-1.0), pace.due_ps(2.5)) == (0, 2.5 * PS_PER_S)
    simulated_ps = run(pace, 0.0, 4 * WINDOW_S, most_speed=1 / factor)
    assert pace.dilation == pytest.approx(factor, rel=0.01)
    assert simulated_ps == pytest.approx(4 * WINDOW_S / factor * PS_PER_S, rel=0.01)


def test_reached__a_lag_beyond_the_limit_is_given_up() -> None:
    """The network does not hurry after a long pause: it is due at most MAX_LAG_S further."""
    pace = Pace(0.0)
    pace.reached(10.0, PS_PER_S)
    assert pace.due_ps(10.0) == pytest.approx((1 + MAX_LAG_S) * PS_PER_S)


def test_dilation__forgets_what_is_older_than_its_window() -> None:
    pace = Pace(0.0)
    run(pace, 0.0, 10.0, most_speed=0.5)
    assert pace.dilation == pytest.approx(2.0, rel=0.01)
    simulated_s = 5.0
    for step in range(1, 200):
        now_s = 10.0 + 0.05 * step
        simulated_s = pace.due_ps(now_s) / PS_PER_S
        pace.reached(now_s, round(simulated_s * PS_PER_S))
    assert pace.dilation == pytest.approx(1.0, rel=0.01)
