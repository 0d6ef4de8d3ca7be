# SPDX-License-Identifier: Apache-2.0
"""Sweeps: one scenario under every scheme, load and seed. One point is one bundle, `DIR/<scheme>/load-<x>/seed-<n>/`.

From Python: `run.run_points(points.points(document, schemes=…, loads=…, seeds=…), DIR)`, then `table.rows`.
"""
