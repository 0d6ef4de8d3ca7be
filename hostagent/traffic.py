# SPDX-License-Identifier: Apache-2.0
"""Runs a host's part of a schedule: it starts each flow at its time, and each flow has one record."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from sluice.hostagent.journal import Journal, resume
from sluice.hostagent.loop import Loop
from sluice.hostagent.records import RESTARTED, RUN_ENDED, unfinished
from sluice.hostagent.sender import ActiveFlow, Sender
from sluice.hostagent.spool import Spool
from sluice.policy.figures.validity import DELAYS, delay_class
from sluice.policy.units import NS_PER_S
from sluice.policy.wire.records import FINISHED, FlowRecord, Schedule

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Transport:
    """The transport of new flows. A new policy replaces the whole object, because two threads read it."""

    congestion_control: str | None
    """None: the namespace's default."""
    scheme: str


@dataclass
class TrafficStatistics:
    """Counters since the agent's start. They leave out the flows of an earlier process of the same run."""

    started: int = 0
    finished: int = 0
    unfinished: int = 0
    retransmissions: int = 0
    timeouts: int = 0
    """Retransmission timeouts."""
    start_lag_max_us: float = 0.0
    """The largest delay of a flow's start against the schedule."""
    start_delays: list[int] = field(default_factory=lambda: [0] * DELAYS)
    """Flows by the delay of their start, in units of their ideal FCT."""


class Traffic:
    """Starts the schedule's flows from the loop, after `begin`."""

    def __init__(
        self, loop: Loop, schedule: Schedule, sender: Sender, spool: Spool, journal: Journal, grace_s: float
    ) -> None:
        self._loop = loop
        self._schedule = schedule
        self._sender = sender
        self._spool = spool
        self._journal = journal
        self._grace_s = grace_s
        self._next = 0
        self._active: dict[int, ActiveFlow] = {}
        self.statistics = TrafficStatistics()
        self.transport = Transport(None, schedule.scheme)
        self.done = False
        """Whether all flows of the schedule are recorded."""

    @property
    def active(self) -> int:
        """Number of flows that have started and not ended."""
        return len(self._active)

    @property
    def epoch_ns(self) -> int:
        """CLOCK_MONOTONIC time of the schedule's start; set by `begin`."""
        return self._epoch_ns

    def begin(self, start_at: float) -> None:
        """Record the flows that an earlier process owes, then run the schedule from `start_at` (epoch, s)."""
        self._start_at = start_at
        self._epoch_ns = round(start_at * NS_PER_S) - (time.time_ns() - time.monotonic_ns())
        resumption = resume(self._journal.read(), self._schedule, start_at, self._spool.ids(), time.time())
        for record in resumption.records:
            self._keep(record)
        self._next = resumption.next_sequence
        self._checkpoint()
        end_ns = self._due_ns(self._schedule.last_s + self._grace_s)
        self._loop.call_at(end_ns, lambda: self._sender.abandon(RUN_ENDED))
        self._plan_next()

    def stop(self, reason: str) -> None:
        """Record the active flows as unfinished, and start no further flow."""
        self._next = len(self._schedule.flows)
        self._sender.abandon(reason)

    def _due_ns(self, start_s: float) -> int:
        return self._epoch_ns + round(start_s * NS_PER_S)

    def _plan_next(self) -> None:
        if self._next < len(self._schedule.flows):
            due_ns = self._due_ns(self._schedule.flows[self._next].start_s)
            self._loop.call_at(due_ns, self._start_due)
        else:
            self.done = not self._active

    def _start_due(self) -> None:
        """Start one flow, then return to the loop, which serves the sockets even if another flow is due."""
        if self._next >= len(self._schedule.flows):
            return
        sequence, self._next = self._next, self._next + 1
        self._start(sequence)
        self._plan_next()

    def _start(self, sequence: int) -> None:
        flow, transport = self._schedule.flows[sequence], self.transport
        lag_us = (time.monotonic_ns() - self._due_ns(flow.start_s)) / 1000
        self.statistics.start_lag_max_us = max(self.statistics.start_lag_max_us, lag_us)
        if not flow.endless:
            self.statistics.start_delays[delay_class(lag_us, flow.ideal_us)] += 1
        initial = unfinished(
            flow,
            RESTARTED,
            started_at=time.time(),
            scheme=transport.scheme,
            congestion_control=transport.congestion_control or "default",
        )
        if self._journal.is_long:
            self._checkpoint(before=sequence)
        self._journal.append_start(sequence, initial)
        ends_ns = None if flow.until_s is None else self._due_ns(flow.until_s)
        active = ActiveFlow(sequence, flow, initial, self._on_done, ends_ns)
        self._active[sequence] = active
        self.statistics.started += 1
        self._sender.start(active, self._schedule.addresses[flow.dst], transport.congestion_control)

    def _on_done(self, active: ActiveFlow, record: FlowRecord, timeouts: int) -> None:
        self._keep(record)
        del self._active[active.sequence]
        self.statistics.retransmissions += record.retransmissions or 0
        self.statistics.timeouts += timeouts
        self.done = self._next >= len(self._schedule.flows) and not self._active

    def _keep(self, record: FlowRecord) -> None:
        self._spool.append(record)
        if record.status == FINISHED:
            self.statistics.finished += 1
        else:
            self.statistics.unfinished += 1

    def _checkpoint(self, before: int | None = None) -> None:
        """Drop ended flows from journal and spool, so that both stay small in a long run."""
        segment = self._spool.rotate()
        active = [(sequence, flow.initial_record) for sequence, flow in self._active.items()]
        if self._journal.replace(self._start_at, self._next if before is None else before, active):
            self._spool.forget_before(segment)
