# SPDX-License-Identifier: Apache-2.0
"""Sweeps on real Slurm. Whatever happens to jobs, nodes and controller, the results are those of a local sweep."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.wait import wait_until
from tests.cluster.conftest import Slurm
from tests.cluster.sweeping import PATIENCE_S, Sweeps, check_same, points, sweep, sweeps
from tests.kit.sweeps import processes_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

POINT = "sluice.sweep.point"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same sweep without a cluster."""
    folder = tmp_path_factory.mktemp("local")
    subprocess.run(sweep(folder), check=True, capture_output=True, timeout=PATIENCE_S)
    return folder / "out"


@pytest.fixture
def shared(slurm: Slurm, tmp_path: Path) -> Iterator[Sweeps]:
    """Sweeps into a folder that the nodes share."""
    with sweeps(slurm, tmp_path) as found:
        yield found


@pytest.fixture
def staged(slurm: Slurm, tmp_path: Path) -> Iterator[Sweeps]:
    """Sweeps into a folder that the nodes do not see."""
    folder = slurm.hidden / tmp_path.name
    folder.mkdir()
    with sweeps(slurm, folder, "--staged") as found:
        yield found


@pytest.fixture(params=["shared", "staged"])
def either(request: pytest.FixtureRequest) -> Sweeps:
    found: Sweeps = request.getfixturevalue(request.param)
    return found


def test_a_sweep__bytes_are_those_of_a_local_one_and_jobs_are_an_array(shared: Sweeps, local: Path) -> None:
    shared.finish(shared.start())
    check_same(shared.out, local)
    assert "array job" in (shared.out / "snakemake.log").read_text()


def test_a_staged_sweep__bytes_are_those_of_a_local_one(staged: Sweeps, local: Path) -> None:
    seen = staged.slurm("srun", "--chdir=/", "ls", "-A", staged.slurm.hidden)
    assert seen == "", "a node sees the folder of the sweep"
    staged.finish(staged.start())
    check_same(staged.out, local)


def test_a_sweep__says_in_one_line_how_much_is_done_and_left(either: Sweeps) -> None:
    either.finish(either.start())
    told = re.findall(r"^(\d) of 4 points done.*?(?:, about .* left)?$", either.printed, re.MULTILINE)
    assert (told[-1], sorted(told)) == ("4", told)
    assert re.search(r"^[123] of 4 points done.*, about \d+ \w+ left$", either.printed, re.MULTILINE)


def test_a_killed_job_starts_again_and_a_drained_node_gets_no_more(
    slurm: Slurm, shared: Sweeps, local: Path
) -> None:
    process = shared.start()
    wait_until(lambda: bool(processes_in(shared.out, POINT)), "a point to run", timeout_s=PATIENCE_S)
    with slurm.drained("n2"):
        for pid in processes_in(shared.out, POINT):
            os.kill(pid, signal.SIGKILL)
        shared.finish(process)
    check_same(shared.out, local)
    assert "Trying to restart job" in (shared.out / "snakemake.log").read_text()


def test_a_staged_job_that_is_killed_starts_again(slurm: Slurm, staged: Sweeps, local: Path) -> None:
    process = staged.start()
    wait_until(lambda: bool(staged.jobs()), "a job to run", timeout_s=PATIENCE_S)
    with slurm.drained("n2"):
        for job in staged.jobs():
            slurm("scancel", "--signal=KILL", job)
        staged.finish(process)
    check_same(staged.out, local)
    assert "Trying to restart job" in (staged.out / "snakemake.log").read_text()


def test_a_sweep_survives_a_restart_of_the_controller(slurm: Slurm, either: Sweeps, local: Path) -> None:
    process = either.start()
    wait_until(lambda: bool(either.jobs()), "a job to run", timeout_s=PATIENCE_S)
    slurm.restart_controller()
    either.finish(process)
    check_same(either.out, local)


def test_a_sweep_continues_after_its_machine_died(slurm: Slurm, either: Sweeps, local: Path) -> None:
    process = either.start()
    wait_until(lambda: bool(points(either.out)), "a bundle", timeout_s=PATIENCE_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = points(either.out)[0] / "summary.json"
    written = first.stat().st_mtime_ns
    either.finish(either.start())
    check_same(either.out, local)
    assert first.stat().st_mtime_ns == written
    assert not either.jobs()
