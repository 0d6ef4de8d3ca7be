# SPDX-License-Identifier: Apache-2.0
"""Multi-level processor sharing, event by event: the reference of the delay model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def times(sizes: Floats, arrivals: Floats, thresholds: Sequence[float]) -> Floats:
    """Return how long each flow takes from its arrival. The link carries one byte in a unit of time."""
    ends = [*thresholds, np.inf]
    levels: list[list[int]] = [[] for _ in ends]
    sent, took = np.zeros(len(sizes)), np.zeros(len(sizes))
    now, coming = 0.0, 0
    while coming < len(sizes) or any(levels):
        level = next((i for i, flows in enumerate(levels) if flows), None)
        if level is None:
            now = arrivals[coming]
            levels[0].append(coming)
            coming += 1
            continue
        flows = levels[level]
        step = min(min(sizes[f], ends[level]) - sent[f] for f in flows) * len(flows)
        until = arrivals[coming] - now if coming < len(sizes) else np.inf
        sent[flows] += min(step, until) / len(flows)
        now += min(step, until)
        if until < step:
            levels[0].append(coming)
            coming += 1
            continue
        stay = []
        for f in flows:
            if sent[f] >= sizes[f] * (1 - 1e-9):
                took[f] = now - arrivals[f]
            elif sent[f] >= ends[level] * (1 - 1e-9):
                levels[level + 1].append(f)
            else:
                stay.append(f)
        levels[level] = stay
    return took
