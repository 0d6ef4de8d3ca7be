# SPDX-License-Identifier: Apache-2.0
"""The event calendar against a sorted list: events come by time, and events of one time in the
order of adding."""

import bisect
import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sim.bottleneck import compiled

pytestmark = pytest.mark.slow

PROBE = Path(__file__).with_name("calendar_probe.cpp")
SLOTS = 2**12

RunScript = Callable[[int, list[int]], list[tuple[int, int]]]
"""(near, script) → the events that were taken, and the clock after each."""


@pytest.fixture(scope="module")
def run_script(tmp_path_factory: pytest.TempPathFactory) -> RunScript:
    """Return the events that were taken, and their times. The probe is compiled with the checks
    for undefined behaviour."""
    function = compiled(PROBE, tmp_path_factory.mktemp("probe")).sluice_run_script
    pointer = ctypes.POINTER(ctypes.c_int64)
    function.argtypes = [ctypes.c_int64, ctypes.c_int64, pointer, pointer, pointer]
    function.restype = ctypes.c_int64

    def run(near: int, script: list[int]) -> list[tuple[int, int]]:
        delay = np.array(script, np.int64)
        taken, clock = np.zeros_like(delay), np.zeros_like(delay)
        columns = [column.ctypes.data_as(pointer) for column in (delay, taken, clock)]
        count = function(near, len(script), *columns)
        return list(zip(taken[:count].tolist(), clock[:count].tolist(), strict=True))

    return run


def by_sorted_list(script: list[int]) -> list[tuple[int, int]]:
    """Return what a calendar must do, by definition."""
    waiting: list[tuple[int, int]] = []
    now, added, result = 0, 0, []
    for step in script:
        if step >= 0:
            bisect.insort(waiting, (now + step, added))
            added += 1
            continue
        limit = now + ~step
        if waiting and waiting[0][0] <= limit:
            now, number = waiting.pop(0)
            result.append((number, now))
        else:
            now = limit
            result.append((-1, now))
    return result


FAR = 100 * SLOTS
FAR_AND_NEAR = [FAR, FAR, FAR - 10, ~(10**9), 10, 10, *[~(10**9)] * 5]
"""Two events are added while their time is far, and two more when it is near: the first two come first."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[int]]:
    """Return a width, and delays and limits of all magnitudes. Many delays are equal, or at the edges of the ring."""
    near = draw(st.sampled_from([0, 1, SLOTS, 100 * SLOTS, 10**9, 10**12]))
    slot = 1 << (near // SLOTS).bit_length()
    ring = slot * SLOTS
    edges = [0, 1, slot, ring - 1, ring, ring + 1, 2 * ring, 5 * ring]
    delay = st.one_of(
        st.sampled_from(edges), st.integers(0, 3 * slot), st.integers(0, 3 * ring), st.integers(0, 10**14)
    )
    step = st.one_of(delay, st.one_of(delay, st.just(10**16)).map(lambda limit: ~limit))
    script = draw(st.lists(step, max_size=120))
    return near, script + [~(10**16)] * (len(script) + 1)


@settings(max_examples=200)
@example((SLOTS, FAR_AND_NEAR))
@given(cases())
def test_events_come_as_from_a_sorted_list(run_script: RunScript, case: tuple[int, list[int]]) -> None:
    near, script = case
    assert run_script(near, script) == by_sorted_list(script)


def test_many_events_as_a_fabric_has_them(run_script: RunScript) -> None:
    """Each event that is taken adds another one. So their number is constant; some coincide, and some are far."""
    events = 20_000
    rng = np.random.default_rng(events)
    delays = rng.choice([0, 1200, 1200, 50_000, 10**7, 10**10], 3 * events)
    script = [*delays[:events].tolist()]
    for delay in delays[events:].tolist():
        script += [~(10**12), delay]
    script = script[: events + min(len(script) - events, 3000)]
    assert run_script(10**9, script) == by_sorted_list(script)
