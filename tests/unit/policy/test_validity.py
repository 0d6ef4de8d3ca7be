# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from policy.entries import read, write
from policy.validity import CPU, LATE, LOST, MachineStatus, flaws


def test_flaws__a_machine_that_keeps_up_has_none() -> None:
    assert list(flaws(MachineStatus(10.0, 0.97, late={"s1:1": 0.05}), "ports")) == []


def test_flaws__each_says_where_why_and_what_to_do() -> None:
    status = MachineStatus(10.0, 0.99, {"s1:2": 0.31}, {"switch side of the link at s1-eth2": 12})
    assert read(MachineStatus, write(status)) == status
    found = list(flaws(status, "ports"))
    assert [(flaw.kind, flaw.where) for flaw in found] == [
        (CPU, "ports"),
        (LATE, "s1:2"),
        (LOST, "switch side of the link at s1-eth2"),
    ]
    assert "the CPU was 99% busy in the last 10 s" in found[0].problem
    assert "late, by 31% of its sending time" in found[1].problem
    assert "12 packets were lost" in found[2].problem
    assert all(flaw.remedy for flaw in found)
