# SPDX-License-Identifier: Apache-2.0
"""Sweeps on real Slurm. Whatever happens to jobs, nodes and controller, the results are those of a local sweep."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.runtime.wait import wait_until
from tests.cluster.conftest import Slurm
from tests.kit.bundles import processes_in, sluice, write_scenario

PATIENCE_S = 300.0
FLOWS = 3000
"""So many that a point runs for seconds, in which a test can disturb it."""
OPTIONS = ("--schemes", "dctcp", "pias", "--seeds", "1", "2")
SAME = ("summary.json", "flows.parquet", "ports.parquet", "scenario.json")


def sweep(folder: Path, *options: object) -> list[str]:
    """The words of a sweep of four points into the folder `out` of this folder."""
    scenario = write_scenario(folder, flows=FLOWS)
    return sluice("sweep", scenario, *OPTIONS, "--out", folder / "out", *options)


def points(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/*/*/summary.json"))


def check_same(out: Path, local: Path) -> None:
    """Check that the bundles hold the bytes of the local sweep."""
    assert len(points(local)) == 4
    for bundle in points(local):
        for name in SAME:
            found = out / bundle.relative_to(local) / name
            assert found.read_bytes() == (bundle / name).read_bytes(), found


@dataclass
class Sweeps:
    """Sweeps into one folder, each point a job of its own."""

    slurm: Slurm
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def printed(self) -> str:
        return (self.folder / "sweep.log").read_text()

    def start(self) -> subprocess.Popen[bytes]:
        words = sweep(self.folder, "--cluster", "slurm", "--job-minutes", 0.001)
        with (self.folder / "sweep.log").open("a") as log:
            self.processes.append(
                subprocess.Popen(
                    self.slurm.command(*words),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=self.folder,
                )
            )
        return self.processes[-1]

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        assert process.wait(PATIENCE_S) == 0, self.printed

    def jobs(self) -> list[str]:
        """The numbers of the jobs that run."""
        return self.slurm("squeue", "--noheader", "--states=running", "--format=%i").split()


@contextmanager
def sweeps(slurm: Slurm, folder: Path) -> Iterator[Sweeps]:
    """Yield sweeps of this folder. At the end, nothing of them runs."""
    found = Sweeps(slurm, folder)
    try:
        yield found
    finally:
        for process in found.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        slurm("scancel", "--user=root")


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
    """Sweeps on the cluster into a folder, which its nodes share."""
    with sweeps(slurm, tmp_path) as found:
        yield found


def test_a_sweep__bytes_are_those_of_a_local_one_and_jobs_are_an_array(shared: Sweeps, local: Path) -> None:
    """It says in one line how much is done and left."""
    shared.finish(shared.start())
    check_same(shared.out, local)
    assert "array job" in (shared.out / "snakemake.log").read_text()
    told = re.findall(r"^(\d) of 4 points done.*?(?:, about .* left)?$", shared.printed, re.MULTILINE)
    assert (told[-1], sorted(told)) == ("4", told)
    assert re.search(r"^[123] of 4 points done.*, about \d+ \w+ left$", shared.printed, re.MULTILINE)


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


def test_a_sweep_survives_a_restart_of_the_controller(slurm: Slurm, shared: Sweeps, local: Path) -> None:
    process = shared.start()
    wait_until(lambda: bool(shared.jobs()), "a job to run", timeout_s=PATIENCE_S)
    slurm.restart_controller()
    shared.finish(process)
    check_same(shared.out, local)


def test_a_sweep_continues_after_its_machine_died(slurm: Slurm, shared: Sweeps, local: Path) -> None:
    process = shared.start()
    wait_until(lambda: bool(points(shared.out)), "a bundle", timeout_s=PATIENCE_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = points(shared.out)[0] / "summary.json"
    written = first.stat().st_mtime_ns
    shared.finish(shared.start())
    check_same(shared.out, local)
    assert first.stat().st_mtime_ns == written
    assert not shared.jobs()
