# SPDX-License-Identifier: Apache-2.0
"""The tier of clusters: real Slurm, with a controller and two nodes on this machine (tools/slurm-cluster)."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.runtime.command import run

TOOL = str(Path(__file__).parents[2] / "tools" / "slurm-cluster")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")


@dataclass(frozen=True)
class Slurm:
    folder: Path

    def __call__(self, *words: object) -> str:
        """Run a command that sees the cluster, and return what it prints."""
        return run(self.command(*words))

    def command(self, *words: object) -> list[str]:
        return [TOOL, "exec", str(self.folder), *map(str, words)]

    def restart_controller(self) -> None:
        run([TOOL, "restart", str(self.folder)])

    @contextmanager
    def drained(self, node: str) -> Iterator[None]:
        """Give a node no further jobs."""
        self("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
        try:
            yield
        finally:
            self("scontrol", "update", f"NodeName={node}", "State=RESUME")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    missing = [program for program in PROGRAMS if shutil.which(program, path="/usr/sbin:/usr/bin") is None]
    if missing:
        pytest.skip(f"{missing[0]} is missing: `make test-cluster` installs it")
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        pytest.skip("Snakemake's plugin for Slurm is missing: `make test-cluster` installs it")
    if os.geteuid() != 0:
        pytest.skip("a cluster on this machine needs root")
    folder = tmp_path_factory.mktemp("slurm")
    run([TOOL, "start", str(folder)])
    yield Slurm(folder)
    subprocess.run([TOOL, "stop", str(folder)], check=True, timeout=60)
