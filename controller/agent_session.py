# SPDX-License-Identifier: Apache-2.0
"""A switch that forwards by itself: no controller is connected, and its port agent takes the place of OpenFlow.

The agent's heartbeats hold the counters. The queue maps reach it through the store, as the answers to heartbeats, so a
change is in force as soon as the store has it, and at the ports with the agent's next heartbeat.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sluice.controller.openflow.counters import CounterReply, QueueCounts
from sluice.controller.rules import SwitchRules
from sluice.controller.session import Listener
from sluice.controller.state import Change, Desired, PollCarried, PollCompleted, ReadRules, SwitchState
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS
from sluice.policy.wire.agents import PortHeartbeat, TagCounters

AWAY_NS = 10_000_000_000
"""An agent that has not reported for this long is away."""


LEAST_INTERVAL_MS, LEAST_WINDOW_MS = 1_000, 4_000
"""An agent reports each second, and a window needs some reports."""


def as_reported(desired: Desired) -> Desired:
    """Return what is desired of such a switch: the policy with an interval and a window that the reports can fill."""
    policy = desired.policy
    interval_ms = max(policy.interval_ms, LEAST_INTERVAL_MS)
    window_ms = max(policy.window_ms, LEAST_WINDOW_MS)
    return replace(desired, policy=replace(policy, interval_ms=interval_ms, window_ms=window_ms))


class AgentSession:
    connection = None
    has_begun, is_settling = True, False

    def __init__(self, state: SwitchState, listener: Listener, now_ns: int) -> None:
        self.state, self._listener = state, listener
        self._reported: PortHeartbeat | None = None
        self._reported_ns = now_ns - AWAY_NS
        self._is_new = False
        """Whether the counters have not been observed yet."""
        state.connected(now_ns)

    def is_alive(self, now_ns: int) -> bool:
        """Whether the agent reports."""
        return now_ns - self._reported_ns < AWAY_NS

    def check_time(self, at_ns: int) -> None:
        """No operation waits for an answer."""

    def take(self, now_ns: int, beat: PortHeartbeat) -> None:
        """Take the agent's newest heartbeat. One that has come before says nothing new."""
        before = self._reported
        if before is not None and (before.pid, before.at) == (beat.pid, beat.at):
            return
        if before is not None and before.pid != beat.pid:
            self.state.connected(now_ns)  # the counters of another process begin at zero
        self._reported, self._reported_ns, self._is_new = beat, now_ns, True
        numbers = {self.state.port_id(number): number for number in self.state.port_numbers.tolist()}
        counts = {
            numbers[port]: QueueCounts(tuple(q.bytes for q in queues), tuple(q.packets for q in queues))
            for port, queues in beat.ports.items()
            if port in numbers
        }
        self._listener.queues_counted(self.state, counts)

    def advance(self, now_ns: int) -> None:
        """Do what is due, as far as the agent's counters reach."""
        if not self._listener.may_act(now_ns):
            return
        while (operation := self.state.next_operation(now_ns)) is not None:
            match operation:
                case ReadRules():
                    self.state.rules_read(SwitchRules(), has_meters=False)
                case Change():
                    self._listener.thresholds_in_force(self.state, self.state.applied())
                case PollCarried() | PollCompleted() if not self._is_new:
                    return
                case PollCarried():
                    self.state.observe_carried(self._counted(carried=True))
                case PollCompleted():
                    self._is_new = False
                    self.state.observe_completed(now_ns, self._counted(carried=False))

    def _counted(self, *, carried: bool) -> CounterReply:
        """Return packets and bytes by tag, or completed flows by bucket. No rule knows from where they have come."""
        assert self._reported is not None
        rows: list[Sequence[TagCounters] | None] = [
            self._reported.tags.get(str(self.state.port_id(number)))
            for number in self.state.port_numbers.tolist()
        ]
        shape = (2, tags.TAG_COUNT) if carried else (INGRESS_GROUPS, tags.ATTAINED_BUCKETS)
        values = np.zeros((len(rows), *shape), np.int64)
        for row, counted in enumerate(rows):
            for of in counted or ():
                bucket = of.dscp - tags.ATTAINED_FIRST
                if carried and of.dscp < tags.TAG_COUNT:
                    values[row, :, of.dscp] = of.packets, of.bytes
                elif not carried and 0 <= bucket < tags.ATTAINED_BUCKETS:
                    values[row, TRUNKS, bucket] = of.ends
        reported = np.asarray([counted is not None for counted in rows], bool)
        return CounterReply(values, reported, int(reported.sum()))
