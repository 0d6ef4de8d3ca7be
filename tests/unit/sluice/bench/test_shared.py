# SPDX-License-Identifier: Apache-2.0
"""What the measurement of two controllers makes of its loops."""

from __future__ import annotations

import pytest

from sluice.bench import shared
from sluice.bench.control import Crew, Loop, Place


def test_measure_shared__one_and_two_take_turns_with_equally_many_switches_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: list[tuple[int, int]] = []

    def loop(_scheme: str, leaves: int, crew: Crew) -> Loop:
        assert crew.place is Place.CORE_EACH
        turns.append((crew.size, leaves))
        cpu = 1.0 if crew.size == 1 else 1.8
        kept = 0.8 if crew.size == 1 else 0.72
        return Loop(leaves * 40, leaves + 4, kept, 100.0, cpu, 0.1 * crew.size, 1, 1, 1, 1)

    monkeypatch.setattr(shared, "measure_loop", loop)
    found = shared.measure_shared()
    leaves = shared.LEAVES_A_CONTROLLER
    assert turns == shared.ROUNDS * [(1, leaves), (2, 2 * leaves)]
    assert found.ports_ratio == pytest.approx(1.8)
    assert found.one.ports == pytest.approx(leaves * 40 * 0.8)
    assert found.one.us_a_port == pytest.approx(100_000 / found.one.ports)
    assert found.one.us_a_port_of_switches == pytest.approx(found.one.us_a_port / 10)
    assert found.cost_ratio == pytest.approx(1.0)


@pytest.mark.parametrize("place", Place)
def test_crew__controllers_and_switches_get_the_cores_of_their_place(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    crew = Crew(2, place)
    found = [crew.core_of(0), crew.core_of(1), crew.cores_of_switches]
    assert (
        found
        == {
            Place.APART: ["0", "0", "1"],
            Place.CORE_EACH: ["0", "1", "0,1"],
        }[place]
    )
