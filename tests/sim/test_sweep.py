# SPDX-License-Identifier: Apache-2.0
"""Real sweeps with the command and the simulator. Each point is a process."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sluice.runs.bundle import read_flows
from sluice.runs.folder import describe, entry_of
from sluice.runs.progress import RUNNING, read_state
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.sweep.points import STATUS, is_finished, points
from sluice.sweep.run import SweepProgress, run_points
from tests.kit.bundles import PATIENCE_S, processes_in, sluice, write_scenario

pytestmark = [pytest.mark.sim, pytest.mark.slow]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return write_scenario(tmp_path)


def sweep(scenario: Path, out: Path, *options: object) -> subprocess.CompletedProcess[str]:
    command = sluice("sweep", scenario, "--out", out, *options)
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep over two schemes and loads."""
    folder = tmp_path_factory.mktemp("grid")
    variants = ("--schemes", "dctcp", "tcp", "--loads", 0.3, 0.6)
    done = sweep(write_scenario(folder), folder / "out", *variants)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def written_at(out: Path) -> dict[str, int]:
    return {str(path.parent.relative_to(out)): path.stat().st_mtime_ns for path in out.rglob("summary.json")}


def test_sweep__every_point_is_a_bundle_and_a_row(grid: Path) -> None:
    rows = pq.read_table(grid / "sweep.parquet").to_pylist()
    assert [(row["scheme"], row["load"], row["seed"]) for row in rows] == [
        (scheme, load, 1) for scheme in ("dctcp", "tcp") for load in (0.3, 0.6)
    ]
    for row in rows:
        flows = read_flows(grid / row["bundle"])
        fct_us = [flow["fct_us"] for flow in flows if flow["fct_us"] is not None]
        assert row["fct_us_all_mean"] == pytest.approx(np.mean(fct_us))
        assert row["fct_us_all_n"] + row["unfinished"] == len(flows) == 60
        assert {flow["scheme"] for flow in flows} == {row["scheme"]}
    one, two = (read_flows(grid / scheme / "load-0.3/seed-01") for scheme in ("dctcp", "tcp"))
    traffic = [sorted((flow["id"], flow["bytes"], flow["src"]) for flow in flows) for flows in (one, two)]
    assert traffic[0] == traffic[1], "the same seed is the same traffic under every scheme"


def test_sweep__what_is_finished_is_not_run_again(grid: Path, tmp_path: Path) -> None:
    out = shutil.copytree(grid, tmp_path / "out")
    before = written_at(out)
    done = sweep(write_scenario(tmp_path), out, "--loads", 0.3, "--seeds", 1, 2)
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout, "the spread over the seeds"
    assert [row["seed"] for row in pq.read_table(out / "sweep.parquet").to_pylist()] == [1, 2]
    after = written_at(out)
    assert after.keys() - before.keys() == {"dctcp/load-0.3/seed-02"}
    assert {name: after[name] for name in before} == before


def test_sweep__a_failed_point_is_named_and_the_others_run(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "dctcp/load-0.5/seed-01/flows.parquet").mkdir(parents=True)
    done = sweep(scenario, out, "--schemes", "dctcp", "tcp")
    assert done.returncode == 1
    assert "failed: dctcp/load-0.5/seed-01:" in done.stdout
    (finished,) = written_at(out).items()
    assert finished[0] == "tcp/load-0.5/seed-01"
    assert "failed: tcp" not in done.stdout
    known = describe(entry_of(tmp_path, "out"))
    assert (known["state"], known["finished"], known["points"]) == ("partial", 1, 2)
    assert known["reason"].startswith("1 of 2 points failed; dctcp/load-0.5/seed-01: ")
    shutil.rmtree(out / "dctcp")
    assert sweep(scenario, out, "--schemes", "dctcp", "tcp").returncode == 0
    assert len(written_at(out)) == 2
    assert finished in written_at(out).items()
    known = describe(entry_of(tmp_path, "out"))
    assert (known["state"], known["reason"]) == ("done", "")


def test_sweep__a_folder_has_one_at_a_time_and_a_killed_point_does_not_pass_for_a_finished_one(
    scenario: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_scenario(tmp_path, flows=10**6)
    process = spawn(sluice("sweep", scenario, "--out", out, "--yes"), log_file=tmp_path / "log")
    point = "dctcp/load-0.5/seed-01"
    try:
        wait_until(lambda: _flows_done(out, point), "the point runs", timeout_s=PATIENCE_S)
        second = sweep(scenario, out, "--yes")
        during = describe(entry_of(tmp_path, "out"))
        (worker,) = processes_in(out, "sluice.sweep.point")
        os.kill(worker, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 1
    finally:
        stop(process)
    assert (during["state"], during["progress"]["scheduled"]) == ("running", 1)
    assert (second.returncode, "another sweep is running" in second.stderr) == (2, True)
    text = (tmp_path / "log").read_text()
    assert f"failed: {point}: its process ended without a message" in text
    assert describe(entry_of(tmp_path, "out"))["state"] == "partial"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_sweep__interrupted_it_keeps_what_is_finished_and_leaves_nothing_running(
    scenario: Path, tmp_path: Path, number: int
) -> None:
    out = tmp_path / "out"
    scenario.write_text(scenario.read_text() + "[sweep.scheme.tcp.workload]\nflows = 1000000\n")
    command = sluice("sweep", scenario, "--out", out, "--schemes", "dctcp", "tcp", "--jobs", 2)
    # A shell's background jobs ignore SIGINT, and their children would ignore it, too.
    process = spawn(["env", "--default-signal=INT", *command], log_file=tmp_path / "log")
    try:
        wait_until(lambda: written_at(out), "the short point is finished", timeout_s=PATIENCE_S)
        running = "tcp/load-0.5/seed-01"
        wait_until(lambda: _flows_done(out, running), "the long point runs", timeout_s=PATIENCE_S)
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
    finally:
        stop(process)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    wait_until(lambda: not processes_in(out), "everything has ended", timeout_s=PATIENCE_S)
    finished = "dctcp/load-0.5/seed-01"
    kept = {finished: written_at(out)[finished]}
    if number == signal.SIGKILL:
        return
    write_scenario(tmp_path)
    resumed = sweep(scenario, out, "--schemes", "dctcp", "tcp")
    assert resumed.returncode == 0, resumed.stderr
    assert written_at(out).items() >= kept.items()


def test_profile__snakemake_runs_the_same_points_as_jobs(grid: Path, tmp_path: Path) -> None:
    """A cluster of one machine: Snakemake's own executor takes the jobs."""
    (tmp_path / "config.yaml").write_text("executor: local\ncores: 2\n")
    out = tmp_path / "out"
    done = sweep(write_scenario(tmp_path), out, "--loads", 0.3, 0.6, "--profile", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(out.glob(".jobs/*.done"))
    names = {f"dctcp/load-{load}/seed-01" for load in (0.3, 0.6)}
    assert written_at(out).keys() == names
    for name in names:
        assert read_flows(out / name) == read_flows(grid / name)


def test_run_points__from_python_with_progress(scenario: Path, tmp_path: Path) -> None:
    from sluice.runs.files import read_document

    write_scenario(tmp_path, flows=5_000)
    wanted = points(read_document(scenario), seeds=[1, 2])
    seen: list[SweepProgress] = []
    outcome = run_points(wanted, tmp_path / "out", jobs=1, report=seen.append)
    assert outcome.finished == wanted
    assert not outcome.failed
    assert all(is_finished(tmp_path / "out", point) for point in wanted)
    assert (seen[-1].finished, seen[-1].points, seen[-1].remaining_s) == (2, 2, 0)
    under_way = [status for progress in seen for status in progress.running.values() if status.recorded]
    assert all(len(progress.running) <= 1 for progress in seen)
    assert {status.scheduled for status in under_way} == {5_000}


def _flows_done(out: Path, point: str) -> bool:
    status = read_state(out / STATUS / point)
    return status is not None and status.state == RUNNING and status.recorded > 0
