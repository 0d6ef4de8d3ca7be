# SPDX-License-Identifier: Apache-2.0
"""Runs one after the other on a fabric. A run that is not valid is made again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.kit.runs import ATTEMPTS, attempts
from sluice.runs.fabrics import runner
from sluice.runs.files import resolve
from sluice.sweep.points import Point, is_finished
from sluice.terminal import progress_bar


def run_each(points: Sequence[Point], out: Path, on: str, most: int) -> None:
    """Make every run that is missing, or that is not valid and was made less than `most` times."""
    for point in points:
        while not _is_enough(out, point, most):
            _run(point, out, on)


def _is_enough(out: Path, point: Point, most: int) -> bool:
    if not is_finished(out, point):
        return False
    summary = json.loads((out / point.name / "summary.json").read_text())
    return summary["valid"]["ok"] or attempts(out / point.name) >= most


def _run(point: Point, out: Path, on: str) -> None:
    bundle = out / point.name
    attempt = attempts(bundle) + 1 if is_finished(out, point) else 1
    resolved = resolve(point.document)
    with progress_bar(point.name) as report:
        summary = runner(on)(resolved, bundle, report)
    (bundle / ATTEMPTS).write_text(str(attempt))
    if not summary["valid"]["ok"]:
        reasons = "; ".join(summary["valid"]["reasons"])
        print(f"{point.name}: attempt {attempt} is not valid: {reasons}", file=sys.stderr)
