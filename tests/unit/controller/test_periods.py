# SPDX-License-Identifier: Apache-2.0
"""Laws of `Periods`: every task has its own grid, and no period comes twice or is caught up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.controller.state import Periods

PERIODS = st.integers(1, 10_000)
PHASES = st.floats(0, 1, exclude_max=True)
TIMES = st.integers(0, 10**15)
STEPS = st.lists(st.integers(0, 30_000), max_size=60)


def times_taken(periods: Periods[str], task: str, start_ns: int, steps_ns: list[int]) -> list[int]:
    """Return the times at which a caller takes a task if it checks after each step."""
    now_ns, taken = start_ns, []
    for step_ns in steps_ns:
        now_ns += step_ns
        if periods.take(task, now_ns):
            taken.append(now_ns)
    return taken


def grid_index(now_ns: int, period_ns: int, phase: float) -> int:
    """Return the number of the latest grid time up to now."""
    return (now_ns - int(phase * period_ns)) // period_ns


def test_nothing_is_due_before_restart() -> None:
    assert not Periods({"poll": 10}).is_due("poll", 10**12)


@given(PERIODS, PHASES, TIMES)
def test_restart__the_first_time_is_later_and_within_one_period(
    period_ns: int, phase: float, now_ns: int
) -> None:
    periods = Periods({"poll": period_ns}, phase)
    periods.restart(now_ns)
    assert not periods.is_due("poll", now_ns)
    assert periods.is_due("poll", now_ns + period_ns)


@given(PERIODS, PHASES, TIMES, STEPS)
def test_take__at_most_once_between_two_grid_times(
    period_ns: int, phase: float, start_ns: int, steps_ns: list[int]
) -> None:
    periods = Periods({"poll": period_ns}, phase)
    periods.restart(start_ns)
    taken = times_taken(periods, "poll", start_ns, steps_ns)
    slots = [grid_index(now_ns, period_ns, phase) for now_ns in taken]
    assert slots == sorted(set(slots))


@given(PERIODS, PHASES, TIMES, STEPS)
def test_take__every_grid_time_that_a_caller_does_not_miss(
    period_ns: int, phase: float, start_ns: int, steps_ns: list[int]
) -> None:
    """A task is due exactly if the grid has advanced since the last check."""
    periods = Periods({"poll": period_ns}, phase)
    periods.restart(start_ns)
    now_ns = start_ns
    for step_ns in steps_ns:
        before = grid_index(now_ns, period_ns, phase)
        now_ns += step_ns
        assert periods.take("poll", now_ns) == (grid_index(now_ns, period_ns, phase) > before)


@given(PERIODS, PHASES, TIMES, st.integers(2, 1000))
def test_take__missed_times_are_skipped(period_ns: int, phase: float, start_ns: int, missed: int) -> None:
    periods = Periods({"poll": period_ns}, phase)
    periods.restart(start_ns)
    late_ns = start_ns + missed * period_ns
    assert periods.take("poll", late_ns)
    assert not periods.take("poll", late_ns)
    assert periods.take("poll", late_ns + period_ns)


@given(PERIODS, PHASES, TIMES, STEPS)
def test_the_phase_stays_however_late_a_task_is_taken(
    period_ns: int, phase: float, start_ns: int, steps_ns: list[int]
) -> None:
    """A caller that checks only at grid times finds the task due at each of them."""
    periods = Periods({"poll": period_ns}, phase)
    periods.restart(start_ns)
    times_taken(periods, "poll", start_ns, steps_ns)
    now_ns = start_ns + sum(steps_ns)
    first_ns = (grid_index(now_ns, period_ns, phase) + 1) * period_ns + int(phase * period_ns)
    for grid_ns in range(first_ns, first_ns + 3 * period_ns, period_ns):
        assert not periods.is_due("poll", grid_ns - 1)
        assert periods.take("poll", grid_ns)


@given(PHASES, TIMES, STEPS)
def test_tasks_do_not_influence_each_other(phase: float, start_ns: int, steps_ns: list[int]) -> None:
    together = Periods({"poll": 700, "adjust": 1100}, phase)
    alone = Periods({"poll": 700}, phase)
    for periods in (together, alone):
        periods.restart(start_ns)
    now_ns, taken = start_ns, []
    for step_ns in steps_ns:
        now_ns += step_ns
        together.take("adjust", now_ns)
        if together.take("poll", now_ns):
            taken.append(now_ns)
    assert taken == times_taken(alone, "poll", start_ns, steps_ns)


def test_is_due__changes_nothing() -> None:
    periods = Periods({"poll": 10})
    periods.restart(0)
    assert periods.is_due("poll", 10)
    assert periods.is_due("poll", 10)
    assert periods.take("poll", 10)
    assert not periods.is_due("poll", 10)


@given(PERIODS, PERIODS, PHASES, TIMES)
def test_change__counts_from_the_next_time_on(
    before_ns: int, after_ns: int, phase: float, start_ns: int
) -> None:
    changed, unchanged = (Periods({"poll": before_ns}, phase) for _ in range(2))
    for periods in (changed, unchanged):
        periods.restart(start_ns)
    changed.change("poll", after_ns)
    due_ns = next(
        now_ns for now_ns in range(start_ns, start_ns + before_ns + 1) if unchanged.is_due("poll", now_ns)
    )
    assert not changed.is_due("poll", due_ns - 1)
    assert changed.take("poll", due_ns)
    next_ns = (grid_index(due_ns, after_ns, phase) + 1) * after_ns + int(phase * after_ns)
    assert not changed.is_due("poll", next_ns - 1)
    assert changed.take("poll", next_ns)


def test_phases__spread_equal_tasks_over_the_period() -> None:
    switches = [Periods({"poll": 100}, phase=turn / 10) for turn in range(10)]
    for periods in switches:
        periods.restart(0)
    at_once = [sum(p.take("poll", now_ns) for p in switches) for now_ns in range(1, 301)]
    assert max(at_once) == 1
    assert sum(at_once) == 30
