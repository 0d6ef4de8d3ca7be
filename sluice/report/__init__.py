# SPDX-License-Identifier: Apache-2.0
"""The report: one self-contained HTML page that compares runs.

From Python: `sluice.report.page.write_report([DIR, …], Path("report.html"))`.
"""
