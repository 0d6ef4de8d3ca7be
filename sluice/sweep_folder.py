# SPDX-License-Identifier: Apache-2.0
"""Names in the folder of a sweep. Small processes read them, so this module imports nothing large."""

from __future__ import annotations

CONFIG = "sweep.json"
"""Points, jobs, and what the points need."""
LOG, POINT_LOG = "snakemake.log", "log.txt"
"""Of the sweep, and of each point."""
STATUS = ".status"
"""Folder with the status of each point."""
JOBS = ".jobs"
"""Folder of the jobs' logs and of the files that say that a job is done."""
STAGED = ".staged"
"""Folder of bundles that a node is sending."""
SUMMARY = "summary.json"
"""The file of a bundle that is written last."""
