# SPDX-License-Identifier: Apache-2.0
"""Common parts of checks on a running stack: waiting while the stack is watched, and short random flows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sluice.runs.stack import Stack

CHECK_S = 0.05


def run_until(
    stack: Stack, due: float, each: Callable[[], None] = lambda: None, every_s: float = CHECK_S
) -> None:
    """Wait until an epoch second. During the wait, check the stack and call `each`."""
    while time.time() < due:
        stack.check()
        each()
        time.sleep(max(0.0, min(every_s, due - time.time())))


def wait_for_records(stack: Stack, wanted: int, until: float) -> None:
    """Wait until the run has `wanted` flow records, or until an epoch second."""
    while stack.recorded() < wanted and time.time() < until:
        run_until(stack, time.time() + CHECK_S)


def poisson_starts_s(rng: np.random.Generator, per_s: float, seconds: float) -> list[float]:
    """Return start times of flows within `seconds`, with exponential gaps."""
    starts_s = np.cumsum(rng.exponential(1 / per_s, int(seconds * per_s)))
    return [float(start_s) for start_s in starts_s if start_s < seconds]


def short_flow(source: str, to: str, size_kb: Any, start_s: float) -> dict[str, Any]:
    """Return a [[workload.flow]] table."""
    return {"from": source, "to": to, "bytes": f"{size_kb}KB", "start": microseconds(start_s)}


def microseconds(seconds: float) -> str:
    """Return a time in the form of scenario files."""
    return f"{round(seconds * 1e6)}us"
