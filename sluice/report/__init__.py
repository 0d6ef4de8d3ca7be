# SPDX-License-Identifier: Apache-2.0
"""The report: one self-contained HTML page that compares runs. `write_report([DIR, …], Path("report.html"))`."""

from sluice.report.page import render, write_report
from sluice.report.runs import Run, find_runs

__all__ = ["Run", "find_runs", "render", "write_report"]
