# SPDX-License-Identifier: Apache-2.0
"""Common values of the schemes with two-level priority scheduling."""

from __future__ import annotations

THRESHOLDS_BYTES = (177_828, 2_371_374, 10_000_000)
"""The best thresholds of four levels for web search at load 0.8
(static_thresholds.optimal_thresholds). The slides give none."""
