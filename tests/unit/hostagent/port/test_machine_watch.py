# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sluice import topologies
from sluice.hostagent.port.machine_watch import LEAST_WINDOW_S, WINDOW_S, MachineWatch, switch_losses
from sluice.policy.figures.validity import DELAYS, MachineStatus, delay_class
from sluice.policy.wire.agents import QueueCounters
from sluice.runtime.command import CommandFailed
from sluice.runtime.identity import Ticks, machine_ticks

RATE_BPS = 10**7
GRAPH = topologies.build("dumbbell", left=1, right=1, host_rate_bps=RATE_BPS, core_rate_bps=RATE_BPS)


@dataclass
class Machine:
    """A machine whose counters the test moves."""

    now_s: float = 100.0
    ticks: Ticks = field(default_factory=lambda: Ticks(0, 0))
    sent_bytes: int = 0
    late_ns: int = 0
    forwarding: list[int] = field(default_factory=lambda: [0] * DELAYS)
    lost: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = MachineWatch(lambda: dict(self.lost), lambda: self.ticks, lambda: self.now_s)

    def second(
        self, *, busy: float = 0.3, load: float = 0.5, late: float = 0.0, lost: int = 0, slow: float = 0.0
    ) -> MachineStatus | None:
        """Pass a second: the share of busy cores, of the port's rate, of its sending time that is late,
        of the packets that take the switch longer than a frame."""
        self.now_s += 1
        self.forwarding[0] += round(100 * (1 - slow))
        self.forwarding[delay_class(3.0, 1.0)] += round(100 * slow)
        self.ticks = Ticks(self.ticks.busy + round(200 * busy), self.ticks.total + 200)
        self.sent_bytes += round(load * RATE_BPS / 8)
        self.late_ns += round(late * load * 1e9)
        self.lost = {"queues of s1-eth1": self.lost.get("queues of s1-eth1", 1000) + lost}
        self.watch.count_losses()
        queues = (QueueCounters(1, self.sent_bytes, 0, 0, 0),)
        return self.watch.look(GRAPH.ports, {"s1:1": queues}, {"s1:1": self.late_ns}, tuple(self.forwarding))

    def seconds(self, count: int, **how: float) -> MachineStatus:
        for _ in range(count):
            status = self.second(**how)  # type: ignore[arg-type]
        assert status is not None
        return status


def test_watch__says_nothing_about_a_short_time() -> None:
    machine = Machine()
    for _ in range(int(LEAST_WINDOW_S)):
        assert machine.second(busy=1.0) is None
    assert machine.second(busy=1.0) is not None


def test_watch__a_machine_that_keeps_up() -> None:
    status = Machine().seconds(30, busy=0.3, late=0.04)
    assert status == MachineStatus(WINDOW_S, 0.3)


def test_watch__cpu_late_packets_and_ports_and_losses_of_the_last_seconds_only() -> None:
    machine = Machine()
    machine.seconds(20)
    status = machine.seconds(10, busy=0.99, late=0.25, lost=3, slow=0.1)
    assert status.cpu_busy == 0.99
    assert status.late == {"s1:1": 0.25}
    assert status.lost == {"queues of s1-eth1": 30}
    assert status.forwarded_late == 0.1
    assert machine.seconds(11) == MachineStatus(WINDOW_S, 0.3)


def test_watch__a_port_that_hardly_sends_is_not_judged() -> None:
    assert Machine().seconds(20, load=0.09, late=0.9).late == {}
    assert Machine().seconds(20, load=0.11, late=0.9).late == {"s1:1": 0.9}


def test_watch__counters_that_begin_again_are_no_losses() -> None:
    machine = Machine()
    machine.seconds(20)
    machine.lost = {"queues of s1-eth1": 0}
    machine.late_ns = machine.sent_bytes = 0
    assert machine.seconds(3) == MachineStatus(WINDOW_S, 0.3)


def test_watch__commands_that_fail_are_no_losses() -> None:
    def fails() -> dict[str, int]:
        raise CommandFailed(["ss"], 1, "no such command")

    watch = MachineWatch(fails, lambda: Ticks(0, 1), lambda: 0.0)
    watch.count_losses()
    assert watch.look(GRAPH.ports, {}, {}, (0,) * DELAYS) is None


def test_switch_losses__of_the_ports_of_sluice_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"queues of s1-eth1": 3, "queues of eth0": 9, "switch side of the link at s1-eth2": 1}
    monkeypatch.setattr("sluice.hostagent.port.machine_watch.switch_side", lambda run: found)
    assert switch_losses(lambda: {"s1-eth1"}) == {"queues of s1-eth1": 3}


def test_machine_ticks__grow() -> None:
    before = machine_ticks()
    sum(range(2_000_000))
    after = machine_ticks()
    assert after.total >= before.total
    assert 0 <= after.busy - before.busy <= after.total - before.total
