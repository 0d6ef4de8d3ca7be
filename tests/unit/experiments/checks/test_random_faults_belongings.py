# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind, while other runs go on."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from experiments.checks.random_faults import belongings
from experiments.checks.random_faults.belongings import Belongings
from sluice.dataplane.inventory import BpfThing
from sluice.runtime.process import spawn, stop

OWN, OF_ANOTHER = BpfThing("map", 7, "own"), BpfThing("prog", 8, "other")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two BPF objects, on which nothing takes time."""
    monkeypatch.setattr(belongings, "SETTLE_S", 0.0)
    monkeypatch.setattr(belongings, "bpf_things", lambda: {OWN, OF_ANOTHER})
    monkeypatch.delenv(belongings.MARK, raising=False)


def hold(monkeypatch: pytest.MonkeyPatch, held: dict[int, tuple[str, int]]) -> None:
    def found(pid: int) -> Iterator[tuple[str, int]]:
        if pid in held:
            yield held[pid]

    monkeypatch.setattr(belongings, "_held", found)


def test_a_process_of_the_run_is_left_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    hold(monkeypatch, {})
    before = spawn(["sleep", "60"])
    mine = Belongings()
    own = spawn(["sleep", "60"])
    assert mine.left() == [f"process sleep ({own.pid})"]
    stop(own)
    assert mine.left() == []
    stop(before)


def test_an_object_of_the_run_is_left_unless_another_run_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Belongings()
    own = spawn(["sleep", "60"])
    hold(monkeypatch, {own.pid: ("map", 7), os.getpid(): ("prog", 8)})
    mine.look()
    stop(own)
    assert mine.left() == ["map own (7)"]
    hold(monkeypatch, {os.getpid(): ("map", 7)})
    assert mine.left() == []
