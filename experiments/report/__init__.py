# SPDX-License-Identifier: Apache-2.0
"""The report: one self-contained HTML page that compares runs. `write_report([DIR, …], Path("report.html"))`."""

from experiments.report.page import render, write_report
from experiments.report.runs import Run, find_runs

__all__ = ["Run", "find_runs", "render", "write_report"]
