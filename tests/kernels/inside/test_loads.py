# SPDX-License-Identifier: Apache-2.0
"""The kernel loads every BPF program, registers every congestion control, and keeps nothing."""

from __future__ import annotations

import pytest

from sluice.dataplane import build
from sluice.dataplane.congestion import available, ours, register_congestion_control
from sluice.dataplane.loader import load
from sluice.dataplane.watch import Watch
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until


@pytest.mark.parametrize("name", [name for name in build.names() if name != "watch"])
def test_a_program_loads(name: str) -> None:
    with load(name):
        pass


def test_flow_watch_loads_with_one_of_its_alternatives() -> None:
    with Watch():
        pass


@pytest.mark.parametrize("control", ours())
def test_a_congestion_control_registers_and_ends(control: str) -> None:
    with register_congestion_control(control):
        assert control in available()
    assert control not in available()


def test_nothing_is_left() -> None:
    """The kernel frees programs after a grace period."""
    wait_until(lambda: "sluice" not in run(["bpftool", "prog", "show"]), "the kernel frees every program")
