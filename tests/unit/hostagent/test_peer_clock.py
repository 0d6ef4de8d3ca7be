# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from sluice.hostagent.wire import DRIFT, Difference, Notice, PeerClock, PeerClocks, machine_number
from sluice.runtime.identity import boot

US, S = 1_000, 1_000_000_000


@dataclass
class OtherMachine:
    """A clock that is ahead of ours and runs at another speed."""

    ahead_ns: int
    speed: float = 1.0

    def at(self, now_ns: int) -> int:
        """Return its reading when ours shows `now_ns`."""
        return self.ahead_ns + round(now_ns * self.speed)

    def flow(self, clock: PeerClock, at_ns: int, fct_ns: int, held_ns: int, back_ns: int) -> Difference:
        """Let `clock` learn from a flow that takes these times."""
        arrived_ns = at_ns + fct_ns
        answered_ns = arrived_ns + held_ns
        return clock.learn(
            started_ns=at_ns,
            arrived_ns=self.at(arrived_ns),
            answered_ns=self.at(answered_ns),
            read_ns=answered_ns + back_ns,
        )


@pytest.mark.parametrize("ahead_ns", [-3600 * S, -1, 0, 70 * US, 3600 * S])
def test_one_flow__the_error_is_half_of_its_time_without_the_receivers_pause(ahead_ns: int) -> None:
    found = OtherMachine(ahead_ns).flow(PeerClock(), 0, fct_ns=300 * US, held_ns=S, back_ns=100 * US)
    assert found.error_ns == 200 * US
    assert found.ns == ahead_ns + 100 * US


@pytest.mark.parametrize("seed", range(5))
def test_many_flows__the_true_difference_is_within_the_error(seed: int) -> None:
    draw, clock, at_ns = random.Random(seed), PeerClock(), 0
    other = OtherMachine(draw.randrange(-S, S), speed=1 + DRIFT * draw.uniform(-0.99, 0.99))
    errors_ns = []
    for _ in range(400):
        at_ns += draw.randrange(10 * US, 5_000 * US)
        times = [
            draw.randrange(50 * US, 20_000 * US),
            draw.randrange(100 * US),
            draw.randrange(30 * US, S // 100),
        ]
        found = other.flow(clock, at_ns, *times)
        true_ns = other.at(at_ns + times[0]) - (at_ns + times[0])
        assert abs(found.ns - true_ns) <= found.error_ns + DRIFT * sum(times), (
            "the flow's own time drifts, too"
        )
        errors_ns.append(found.error_ns)
    assert min(errors_ns) < 500 * US < errors_ns[0]


def test_silence__the_error_grows_with_the_drift() -> None:
    clock, other = PeerClock(), OtherMachine(5 * S)
    other.flow(clock, 0, fct_ns=50 * US, held_ns=0, back_ns=50 * US)
    soon = other.flow(clock, S, fct_ns=S, held_ns=0, back_ns=S)
    assert soon.error_ns == pytest.approx(50 * US + 3 * S * DRIFT, rel=0.01)


def test_a_step_of_the_clock_is_forgotten_with_the_next_flow() -> None:
    clock = PeerClock()
    OtherMachine(0).flow(clock, 0, fct_ns=50 * US, held_ns=0, back_ns=50 * US)
    found = OtherMachine(2 * S).flow(clock, S, fct_ns=400 * US, held_ns=0, back_ns=400 * US)
    assert found == (2 * S, 400 * US)


def test_arrival__two_hosts_of_one_machine_have_one_clock() -> None:
    notice = Notice(1, 900, 950, machine_number(boot()), True)
    assert PeerClocks().arrival("192.0.2.1", 100, notice) == (900, None)
