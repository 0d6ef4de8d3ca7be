# SPDX-License-Identifier: Apache-2.0
"""Sweeps: one scenario under every scheme, load and seed. One point is one bundle, `DIR/<scheme>/load-<x>/seed-<n>/`.

From Python: `run_points(points(document, schemes=…, loads=…, seeds=…), DIR)`, then `rows(DIR, points)`.
"""

from sluice.sweep.points import Point, points
from sluice.sweep.run import Outcome, run_points
from sluice.sweep.table import rows

__all__ = ["Outcome", "Point", "points", "rows", "run_points"]
