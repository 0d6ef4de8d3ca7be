# SPDX-License-Identifier: Apache-2.0
"""The polling of a switch, and the adaptation of its thresholds."""

from collections.abc import Callable
from itertools import cycle

import numpy as np
import pytest

from sluice.controller import state as states
from sluice.controller.rules import SwitchRules
from sluice.controller.state import CARRIED, COMPLETED, MS, Desired, Operation, SwitchState
from sluice.policy import tags
from tests.kit.controller import counted
from tests.kit.networks import single
from tests.unit.controller.driven import KB, DrivenSwitch, policy, port_counts, settled


def test_phase__switches_are_polled_in_turn_and_not_at_one_instant() -> None:
    polled: dict[int, list[int]] = {}
    desired = Desired(single(), 1, policy())
    states = [SwitchState("s1", desired, phase=i / 10) for i in range(10)]
    for state in states:
        state.connected(0)
        state.rules_read(SwitchRules())
        state.next_operation(0)
        state.applied()
    for now_ms in range(1, 301):
        for i, state in enumerate(states):
            if state.next_operation(now_ms * MS) == CARRIED:
                state.observe_carried(DrivenSwitch(desired).carried_counts())
                assert state.next_operation(now_ms * MS) == COMPLETED
                state.observe_completed(now_ms * MS, DrivenSwitch(desired).completed_counts())
                polled.setdefault(now_ms, []).append(i)
    at_once = [len(turns) for turns in polled.values()]
    assert max(at_once) == 1
    assert sum(at_once) == 30


# ── Pace ───────────────────────────────────────────────────────────────────────────────────────


def polls(driven: DrivenSwitch, duration_ms: int, kind: Operation) -> int:
    """Return how many operations of a kind are due in that time."""
    count = 0
    for _ in range(duration_ms):
        driven.now_ns += MS
        operation = driven.state.next_operation(driven.now_ns)
        if operation == CARRIED:
            driven.state.observe_carried(driven.carried_counts())
            operation = driven.state.next_operation(driven.now_ns)
        count += operation == kind
        if operation == COMPLETED:
            driven.state.observe_completed(driven.now_ns, driven.completed_counts())
    return count


@pytest.mark.parametrize(
    ("interval_ms", "window_ms", "a_second"),
    [(100, 500, 10), (10, 500, 20), (1000, 500, 8), (1000, 10_000, 1)],
)
def test_counters_are_polled_at_the_interval_bounded_by_50_ms_and_a_quarter_of_the_window(
    interval_ms: int, window_ms: int, a_second: int
) -> None:
    driven = settled(policy(interval_ms=interval_ms, window_ms=window_ms))
    assert polls(driven, 2_000, COMPLETED) == pytest.approx(2 * a_second, abs=1)


def test_queues_are_polled_once_a_second_under_every_scheme() -> None:
    for wanted in (policy("tcp"), policy()):
        driven = settled(wanted)
        assert polls(driven, 4_000, states.PollQueues()) == pytest.approx(
            4 * 10**9 / states.QUEUE_POLL_NS, abs=1
        )


def test_bytes_are_polled_before_completed_flows() -> None:
    for wanted in (policy("sluice"), policy(robust_ends=False)):
        driven = settled(wanted)
        seen = []
        for _ in range(1_000):
            driven.now_ns += MS
            seen.append(driven.state.next_operation(driven.now_ns))
            if seen[-1] == CARRIED:
                driven.state.observe_carried(port_counts([np.zeros((2, tags.TAG_COUNT), np.int64)] * 3))
            if seen[-1] == COMPLETED:
                driven.state.observe_completed(driven.now_ns, driven.completed_counts())
        due = [operation for operation in seen if operation is not None]
        assert due.count(CARRIED) == pytest.approx(10, abs=1)
        assert due.count(COMPLETED) == pytest.approx(10, abs=1)
        assert all(due[i + 1] == COMPLETED for i, poll in enumerate(due[:-1]) if poll == CARRIED)


# ── Convergence ────────────────────────────────────────────────────────────────────────────────


def mix(short_bytes: int) -> Callable[[], int]:
    """Return a source of sizes: 80 % short flows, 20 % of 1 MB, in a fixed order."""
    sizes = cycle([*[short_bytes] * 4, 1_000_000])
    return lambda: next(sizes)


@pytest.mark.parametrize("start", ["1KB", "1000KB"])
def test_convergence__to_the_edge_of_the_short_flows_from_any_start_within_a_window(start: str) -> None:
    driven = DrivenSwitch(Desired(single(), 1, policy(queues=2, thresholds=[start], percentiles=[80])))
    history = driven.run(1_500, 1, mix(10 * KB))
    assert set(history[60:]) == {(10 * KB,)}
    where_nothing_completes = tags.snap_to_edge(driven.desired.policy.thresholds[0])
    assert driven.thresholds("s1:2") == driven.thresholds("s1:3") == (where_nothing_completes,)
    assert driven.mapped_at_all_times


def test_counters_of_a_new_connection_are_a_baseline_and_no_burst_of_flows() -> None:
    driven = settled(policy(queues=2, thresholds=["1000KB"]))
    driven.carries(1, counted([10 * KB] * 10_000))
    driven.state.connected(driven.now_ns)
    assert set(driven.run(1_000)) == {(1_000_000,)}
