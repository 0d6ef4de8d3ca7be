# SPDX-License-Identifier: Apache-2.0
"""Periods: when each of several repeated tasks is due next. Pure: the caller passes the time.

Each task has a grid of times: its period, shifted by `phase` of a period. Switches with different
phases are polled one after another, so their replies do not arrive at one instant.

    grid of a task     ├────────┼────────┼────────┼────────┼──▶ time
    taken at                ✓              ✓ ✗        ✓         ✗: not due again before the grid
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Task = TypeVar("Task", bound=Hashable)


class Periods(Generic[Task]):
    """The next time of each task. A time that was missed is skipped: a task is never due twice."""

    def __init__(self, periods_ns: Mapping[Task, int], phase: float = 0.0) -> None:
        """`phase` is from 0 to 1: a part of each period. Until `restart` no task is due."""
        self._periods_ns, self._phase = dict(periods_ns), phase
        self._next_ns: dict[Task, int] = {}

    def restart(self, now_ns: int) -> None:
        """Forget all earlier times: each task is due at its first grid time after `now_ns`."""
        self._next_ns = {task: self._grid_time_after(task, now_ns) for task in self._periods_ns}

    def change(self, task: Task, period_ns: int) -> None:
        """Give a task another period. Its next time stays; the new period counts from then on."""
        self._periods_ns[task] = period_ns

    def is_due(self, task: Task, now_ns: int) -> bool:
        return task in self._next_ns and now_ns >= self._next_ns[task]

    def take(self, task: Task, now_ns: int) -> bool:
        """Return whether the task is due. If it is, its next time is the grid time after now."""
        if not self.is_due(task, now_ns):
            return False
        self._next_ns[task] = self._grid_time_after(task, now_ns)
        return True

    def _grid_time_after(self, task: Task, now_ns: int) -> int:
        period_ns = self._periods_ns[task]
        first_ns = int(self._phase * period_ns)
        return now_ns + period_ns - (now_ns - first_ns) % period_ns
