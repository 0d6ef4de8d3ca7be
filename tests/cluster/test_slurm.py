# SPDX-License-Identifier: Apache-2.0
"""Sweeps on real Slurm. Whatever happens to jobs and nodes, the results are those of a local sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.wait import wait_until
from tests.cluster.conftest import Slurm

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_S = 300.0
SCENARIO = """
name = "small"
[fabric]
topology = "single"
hosts = 4
host_rate = "1Gbit"
buffer = "360KB"
[scheme]
name = "dctcp"
[workload]
sizes = "web-search"
pattern = "all-to-all"
load = 0.5
flows = 3000
"""
OPTIONS = ("--schemes", "dctcp", "pias", "--seeds", "1", "2")
SAME = ("summary.json", "flows.parquet", "ports.parquet", "scenario.json")


def sweep(folder: Path, out: str, *options: object) -> list[str]:
    scenario = folder / "small.toml"
    scenario.write_text(SCENARIO)
    argv = [sys.executable, "-m", "sluice", "sweep", scenario, *OPTIONS, "--out", folder / out, *options]
    return [str(word) for word in argv]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same sweep without a cluster."""
    folder = tmp_path_factory.mktemp("local")
    subprocess.run(sweep(folder, "out"), check=True, capture_output=True, timeout=PATIENCE_S)
    return folder / "out"


@pytest.fixture
def started(slurm: Slurm, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a sweep on the cluster, with one point in each job."""
    processes = []

    def start(*options: object) -> subprocess.Popen[str]:
        words = sweep(tmp_path, "out", "--cluster", "slurm", "--job-minutes", 0.001, *options)
        log = (tmp_path / "sweep.log").open("a")
        process = subprocess.Popen(
            slurm.command(*words), stdout=log, stderr=log, text=True, start_new_session=True
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    slurm("scancel", "--user=root")


def points(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/*/*/summary.json"))


def check_same(folder: Path, local: Path) -> None:
    assert len(points(local)) == 4
    for bundle in points(local):
        for name in SAME:
            found = folder / bundle.relative_to(local) / name
            assert found.read_bytes() == (bundle / name).read_bytes(), found


def processes_of(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"sluice.sweep.point" in argv and any(word.encode() in one for one in argv):
                found.append(int(entry.name))
    return found


def test_a_sweep__bytes_are_those_of_a_local_one(
    slurm: Slurm, started: Callable[..., subprocess.Popen[str]], tmp_path: Path, local: Path
) -> None:
    assert started().wait(PATIENCE_S) == 0, (tmp_path / "sweep.log").read_text()
    check_same(tmp_path / "out", local)
    assert "array job" in (tmp_path / "out" / "snakemake.log").read_text()


def test_a_killed_job_starts_again_and_a_drained_node_gets_no_more(
    slurm: Slurm, started: Callable[..., subprocess.Popen[str]], tmp_path: Path, local: Path
) -> None:
    process = started()
    wait_until(lambda: bool(processes_of(str(tmp_path))), "a point to run", timeout_s=PATIENCE_S)
    slurm("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    try:
        for pid in processes_of(str(tmp_path)):
            os.kill(pid, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "sweep.log").read_text()
    finally:
        slurm("scontrol", "update", "NodeName=n2", "State=RESUME")
    check_same(tmp_path / "out", local)
    assert "Trying to restart job" in (tmp_path / "out" / "snakemake.log").read_text()


def test_a_sweep_continues_after_its_machine_died(
    slurm: Slurm, started: Callable[..., subprocess.Popen[str]], tmp_path: Path, local: Path
) -> None:
    process = started()
    wait_until(lambda: bool(points(tmp_path / "out")), "a bundle", timeout_s=PATIENCE_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = points(tmp_path / "out")[0] / "summary.json"
    written = first.stat().st_mtime_ns
    assert started().wait(PATIENCE_S) == 0, (tmp_path / "sweep.log").read_text()
    check_same(tmp_path / "out", local)
    assert first.stat().st_mtime_ns == written
