# SPDX-License-Identifier: Apache-2.0
"""A sweep on a cluster: points in jobs of some minutes, and Snakemake's options for the cluster's engine."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR
from sluice.runs.progress import predicted_s
from sluice.runtime import extras
from sluice.runtime.command import CommandFailed, run
from sluice.sweep.points import Point

STARTUP_S = 10.0
"""Time of a job before its first point runs: imports of Snakemake and of Sluice."""
RETRIES = 3
"""How often a job that failed or was lost starts again. It runs only the points that are missing."""
DEFAULT_JOBS = 100
DEFAULT_JOB_MINUTES = 5.0
MEMORY_MB = 2048
JOBS = ".jobs"
"""Folder of the jobs' logs and of the files that say that a job is done, in the folder of a sweep."""
_SPARE = 4.0
"""A job may take so many times as long as predicted before the cluster ends it."""

Batches = dict[str, list[str]]
"""Name of a job → names of its points."""


@dataclass(frozen=True)
class Cluster:
    """Where the jobs of a sweep run."""

    profile: str | None = None
    """A Snakemake profile, a folder or a name. None: Slurm without a profile."""
    job_minutes: float = DEFAULT_JOB_MINUTES

    def check(self) -> None:
        """Raise SluiceError if this machine cannot submit jobs."""
        if self.profile is not None:
            extras.need("snakemake", "--profile")
            return
        extras.need("snakemake_executor_plugin_slurm", "--cluster slurm")
        if shutil.which("sbatch") is None:
            raise SluiceError(
                "--cluster slurm: there is no sbatch here; run this on a machine that submits jobs"
            )

    def options(self, jobs: int) -> list[str]:
        """Snakemake's options for at most `jobs` jobs at a time."""
        given = ["--jobs", str(jobs), "--retries", str(RETRIES), "--latency-wait", "60"]
        if self.profile is not None:
            # A storage may still hold the outputs of an earlier call. Jobs skip points that are done.
            return [*given, "--forceall", "--profile", self.profile]
        try:
            config = run(["scontrol", "show", "config"])
        except CommandFailed as error:
            raise SluiceError(f"--cluster slurm: the cluster does not answer ({error})") from None
        # sacct tells no states of jobs on a cluster without accounting.
        status_command = "squeue" if "accounting_storage/none" in config else "sacct"
        return [
            *[*given, "--executor", "slurm", "--slurm-array-jobs", "all"],
            *["--slurm-requeue", "--slurm-no-account", "--slurm-status-command", status_command],
            *["--slurm-init-seconds-before-status-checks", "5", "--seconds-between-status-checks", "5"],
        ]


def batches(points: Sequence[Point], predicted: Mapping[str, float], job_minutes: float) -> Batches:
    """Group points into jobs of about this time. The longest points come first, so that none starts last.

    A point that is longer than a job is a job of its own.
    """
    most_s, jobs, filled = 60 * job_minutes, Batches(), dict[str, float]()
    for point in sorted(points, key=lambda point: (-predicted[point.name], point.name)):
        needed = predicted[point.name]
        name = next((name for name, taken in filled.items() if taken + needed <= most_s), None)
        if name is None:
            name = f"job-{len(jobs):04d}"
            jobs[name], filled[name] = [], 0.0
        jobs[name].append(point.name)
        filled[name] += needed
    return jobs


def job_entries(points: Sequence[Point], cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return what Snakefile and nodes read of each job: its points and its limits."""
    predicted = {point.name: predicted_s(point.work or 0.0, SIMULATOR) for point in points}
    return {
        job: {
            "points": names,
            "minutes": 2 + round((STARTUP_S + _SPARE * sum(predicted[name] for name in names)) / 60),
            "mem_mb": MEMORY_MB,
        }
        for job, names in batches(points, predicted, cluster.job_minutes).items()
    }
