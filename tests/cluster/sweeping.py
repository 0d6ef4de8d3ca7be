# SPDX-License-Identifier: Apache-2.0
"""Sweeps that run on the cluster, and the same one without it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.conftest import Slurm
from tests.kit.sweeps import sluice, write_scenario

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
    options: tuple[str, ...] = ()
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def printed(self) -> str:
        return (self.folder / "sweep.log").read_text()

    def start(self) -> subprocess.Popen[bytes]:
        words = sweep(self.folder, "--cluster", "slurm", "--job-minutes", 0.001, *self.options)
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
def sweeps(slurm: Slurm, folder: Path, *options: str) -> Iterator[Sweeps]:
    """Yield sweeps of this folder. At the end, nothing of them runs."""
    found = Sweeps(slurm, folder, options)
    try:
        yield found
    finally:
        for process in found.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        slurm("scancel", "--user=root")
