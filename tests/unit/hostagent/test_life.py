# SPDX-License-Identifier: Apache-2.0
"""What an agent reports to systemd: both of its threads must turn."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.hostagent.agent import Agent
from sluice.hostagent.loop import Loop
from sluice.runtime.lifecycle import Notifier


class Recorded(Notifier):
    """Keeps the reports. systemd wants one each 5 ms."""

    def __init__(self) -> None:
        super().__init__({})
        self.interval_s = 0.005
        self.reports: list[str] = []

    def ready(self, status: str) -> None:
        self.reports.append(status)

    def alive(self) -> None:
        self.reports.append("alive")


def reports(reporter_turned_s: float) -> list[str]:
    """Run the agent's loop for 40 ms."""
    agent: Any = object.__new__(Agent)
    agent._loop, agent._notifier = Loop(), Recorded()
    agent._settings = SimpleNamespace(interface="eth0")
    agent._reporter = SimpleNamespace(turned_s=reporter_turned_s)
    agent._report_life()
    agent._loop.call_at(time.monotonic_ns() + 40_000_000, agent._loop.stop)
    agent._loop.run()
    agent._loop.close()
    found: list[str] = agent._notifier.reports
    return found


def test_an_agent_is_ready_and_then_alive() -> None:
    first, *rest = reports(time.monotonic())
    assert first == "tags packets on eth0"
    assert len(rest) >= 2
    assert set(rest) == {"alive"}


@pytest.mark.parametrize("silent_s", [21.0, 1000.0])
def test_a_reporter_that_hangs_is_not_reported_alive(silent_s: float) -> None:
    assert reports(time.monotonic() - silent_s) == ["tags packets on eth0"]
