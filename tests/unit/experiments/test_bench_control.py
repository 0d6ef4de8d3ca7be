# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the control loop, in small: it measures what it names, and rejects wrong rules."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from experiments.bench import control as bench_control
from experiments.bench.control import SCHEMES, Loop, measure_decoding, measure_loop, most_leaves
from sluice.store import observed
from tests.kit.known import known

pytestmark = pytest.mark.timing


def test_decoding__is_a_hundred_times_faster_than_os_ken_on_the_same_bytes() -> None:
    for speed in measure_decoding(ports=30).values():
        assert speed.ours_per_s > 100 * speed.os_ken_per_s


@pytest.mark.parametrize("scheme", SCHEMES)
def test_loop__polls_moves_rules_and_leaves_the_maps_that_the_controller_tells_of(scheme: str) -> None:
    """Five switches with 40 ports for two seconds; the maps are compared inside."""
    loop = measure_loop(scheme, 1, 2.0)
    assert (loop.ports, loop.switches) == (40, 5)
    assert 0 < loop.kept < 1.1
    assert loop.rules_per_s > 0
    assert loop.entries_per_s > 0


def test_loop__wrong_rules_on_a_switch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark gets other thresholds than the installed ones."""
    recorded = observed.latest_thresholds

    def other(engine: Engine) -> dict[str, observed.ThresholdChange]:
        changes = recorded(engine)
        port = next(iter(changes))
        changes[port] = observed.ThresholdChange(0.0, port, 1, tuple(range(1000, 8000, 1000)), 0)
        return changes

    monkeypatch.setattr(observed, "latest_thresholds", other)
    with pytest.raises(RuntimeError, match="does not match its thresholds"):
        measure_loop("mlfq-adaptive", 1, 1.0)


@pytest.mark.parametrize("true_most", [1, 7, 37, 99])
def test_most_leaves__finds_the_largest_that_keeps_the_pace_to_a_tenth(
    monkeypatch: pytest.MonkeyPatch, true_most: int
) -> None:
    def kept(_scheme: str, leaves: int, _seconds: float) -> Loop | None:
        return Loop(leaves, 1, 1, 1, 1, 1, 1, 1, 1, 1) if leaves <= true_most else None

    monkeypatch.setattr(bench_control, "_kept_loop", kept)
    found = known(most_leaves("mlfq-adaptive", 50, 100)).ports
    assert true_most - max(1, true_most // 10) <= found <= true_most


def test_most_leaves__none_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_control, "_kept_loop", lambda *_: None)
    assert most_leaves("mlfq-adaptive", 50, 100) is None
