# SPDX-License-Identifier: Apache-2.0
"""A switch that forwards by itself: its port agent's heartbeats take the place of OpenFlow."""

from collections import Counter
from dataclasses import replace

from sluice.controller.session import AWAY_NS, AgentSession, as_reported
from sluice.controller.state import MS, Desired, SwitchState
from sluice.policy.tags import attained_tag
from sluice.policy.units import MSS_BYTES, PACKET_BYTES
from sluice.policy.wire.agents import TagCounters
from tests.kit.heartbeats import port_heartbeat, queue_counters
from tests.kit.networks import single
from tests.unit.controller.driven import KB, policy
from tests.unit.controller.sessions import RecordingListener

S = 1000 * MS
PACKETS = 7


class Lab:
    """A session, and an agent that reports each second."""

    def __init__(self) -> None:
        self.listener, self.now_ns = RecordingListener(), S
        desired = as_reported(Desired(single(), 1, policy(thresholds=["1000KB"], queues=2)))
        state = SwitchState("s1", desired)
        self.session = AgentSession(state, self.listener, self.now_ns)
        self.flows = 0
        self.pid = 1

    def report(self) -> None:
        """Report all flows of seven packets that have ended at port 2 so far."""
        by_tag = Counter(attained_tag(number * MSS_BYTES) for number in range(PACKETS))
        last = attained_tag((PACKETS - 1) * MSS_BYTES)
        counted = tuple(
            TagCounters(
                tag, count * self.flows, count * self.flows * PACKET_BYTES, self.flows * (tag == last)
            )
            for tag, count in by_tag.items()
        )
        beat = port_heartbeat(pid=self.pid, at=self.now_ns / S, ports={"s1:2": (queue_counters(),)})
        self.session.take(self.now_ns, replace(beat, tags={"s1:1": (), "s1:2": counted, "s1:3": ()}))

    def run(self, seconds: int, flows: int) -> None:
        """Let time pass, with so many flows in each second."""
        for _ in range(seconds):
            self.flows += flows
            self.report()
            for _ in range(100):
                self.now_ns += 10 * MS
                self.session.advance(self.now_ns)


def test_thresholds_follow_the_counters_of_the_agent() -> None:
    lab = Lab()
    lab.session.advance(lab.now_ns)
    assert set(lab.listener.thresholds.values()) == {(1_000_000,)}, "the policy's, before any report"
    lab.run(10, flows=100)
    changed = lab.listener.thresholds
    assert changed["s1:2"] < (100 * KB,)
    assert (changed["s1:1"], changed["s1:3"]) == ((1_000_000,), (1_000_000,))
    assert lab.listener.counts[-1][2].packets == (100,)


def test_an_agent_that_starts_again_begins_at_zero() -> None:
    lab = Lab()
    lab.run(10, flows=100)
    before = lab.listener.thresholds["s1:2"]
    lab.pid, lab.flows = 2, 0
    lab.run(3, flows=100)
    assert lab.listener.thresholds["s1:2"] == before


def test_an_agent_that_is_silent_is_away() -> None:
    lab = Lab()
    assert not lab.session.is_alive(lab.now_ns), "it has not reported yet"
    lab.run(1, flows=0)
    assert lab.session.is_alive(lab.now_ns)
    assert not lab.session.is_alive(lab.now_ns + AWAY_NS)


def test_a_controller_that_does_not_lead_does_nothing() -> None:
    lab = Lab()
    lab.listener.leads = False
    lab.run(2, flows=100)
    assert lab.listener.thresholds == {}
