# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.figures.validity import (
    DELAYS,
    FORWARDED,
    LATE,
    LOST,
    MachineStatus,
    delay_class,
    delays_between,
    flaws,
    share_late,
    total_delays,
)
from sluice.policy.schema.entries import read, write


def counts(**by_class: int) -> tuple[int, ...]:
    return tuple(by_class.get(f"c{i}", 0) for i in range(DELAYS))


def test_flaws__a_machine_that_keeps_up_has_none_however_busy_it_is() -> None:
    assert list(flaws(MachineStatus(10.0, 1.0, late={"s1:1": 0.05}, forwarded_late=0.02), "ports")) == []


def test_flaws__each_says_where_why_and_what_to_do() -> None:
    status = MachineStatus(10.0, 0.99, {"s1:2": 0.31}, {"switch side of the link at s1-eth2": 12}, 0.25)
    assert read(MachineStatus, write(status)) == status
    found = list(flaws(status, "ports"))
    assert [(flaw.kind, flaw.where) for flaw in found] == [
        (FORWARDED, "ports"),
        (LATE, "s1:2"),
        (LOST, "switch side of the link at s1-eth2"),
    ]
    assert "forwarded 25.0% of the packets in the last 10 s later than" in found[0].problem
    assert "late, by 31% of its sending time" in found[1].problem
    assert "12 packets were lost" in found[2].problem
    assert all(flaw.remedy for flaw in found)


@pytest.mark.parametrize(
    ("delay", "expected"), [(-1, 0), (0.1, 0), (0.125, 1), (0.25, 2), (0.99, 3), (1, 4), (2, 5), (1e9, 15)]
)
def test_delay_class__powers_of_two_of_eighths(delay: float, expected: int) -> None:
    assert delay_class(delay * 7, 7) == expected
    assert delay_class(delay, 0) == 0


def test_share_late__counts_whole_units_and_more() -> None:
    assert share_late(counts(c0=6, c3=2, c4=1, c9=1)) == 0.2
    assert share_late(counts()) == 0
    assert share_late(counts(c0=6, c3=2, c4=1, c9=1), units=2) == 0.1


def test_delays_between__the_growth_or_all_of_a_new_process() -> None:
    assert delays_between(counts(c0=5), counts(c0=7, c4=1)) == counts(c0=2, c4=1)
    assert delays_between(counts(c0=5), counts(c4=1)) == counts(c4=1)
    assert total_delays([counts(c0=5), counts(c0=1, c2=1)]) == counts(c0=6, c2=1)
    assert total_delays([]) == counts()
